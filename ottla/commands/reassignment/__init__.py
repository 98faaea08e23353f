"""``ottla reassign-partitions`` and its parts."""
