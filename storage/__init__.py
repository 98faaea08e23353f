"""One broker's logs on disk: segments, indexes, epochs, producer state, recovery, retention, compaction."""
