"""A cluster inside the test's own process: real brokers and real sockets, with a ZooKeeper that is an object."""

from ottla.testing.in_process.cluster import InProcessCluster

__all__ = ["InProcessCluster"]
