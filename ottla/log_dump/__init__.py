"""What `ottla dump-log` prints: the files of a partition's log, in the lines of Apache Kafka's kafka-dump-log.

Nothing is changed and no lock is taken, so the files may be a running broker's; what it is writing just then may look
cut off at the end.
"""
