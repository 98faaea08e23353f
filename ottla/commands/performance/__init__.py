"""``ottla producer-perf-test``, ``consumer-perf-test`` and ``end-to-end-latency``: how fast records move."""
