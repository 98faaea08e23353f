"""The data path: leader and follower roles, fetchers, in-sync replicas, high watermark, waiting requests."""
