"""Kafka's bytes, without I/O: primitives, message schemas as data, compiled codecs, record batches, errors."""
