"""Brokers that watch each other's ZooKeeper sessions, so that the death of a host, guardian included, is detected."""
