"""ZooKeeper as brokers use it: the session, each znode's path and JSON, and the fenced stores."""
