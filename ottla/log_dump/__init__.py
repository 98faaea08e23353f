"""What `ottla dump-log` prints: the files of a partition's log, in the lines of Apache Kafka's kafka-dump-log.

Nothing is changed and no lock is taken, so the files may belong to a running broker; a batch that it is just writing
may look cut off.
"""
