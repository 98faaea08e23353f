"""The client's half of Kafka's security, and what both halves share: SASL mechanisms, key stores, TLS contexts.

It knows bytes, files and configuration keys; no sockets, no loop, no broker.
"""
