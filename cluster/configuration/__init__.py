"""Kafka's broker and topic settings as data, and the typed configuration that a file of them becomes."""
