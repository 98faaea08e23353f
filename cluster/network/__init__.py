"""Listeners, connections and channels to other brokers: framing, order, back-pressure; no API knowledge."""
