"""Brokers that watch over each other's ZooKeeper sessions, so that a host that dies with its guardian is found."""
