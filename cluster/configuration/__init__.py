"""Kafka's broker and topic settings as data, `server.properties`, and the typed configuration made of them."""
