"""Spark jobs over the public protocol, and the log directory as a Spark source."""
