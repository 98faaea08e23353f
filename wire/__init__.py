"""Kafka's bytes, without I/O: message schemas as data, compiled codecs, frames, record batches, errors."""
