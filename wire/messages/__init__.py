"""Kafka's requests and responses, a module per API; `wire.apis` imports the one that is needed."""
