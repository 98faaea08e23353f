"""Groups, offsets, transactions and producer ids."""

from typing import Final

TABLE: Final = """
group.min.session.timeout.ms | int | 6000 | medium | read-only
    The shortest session that a group member may ask for.
group.max.session.timeout.ms | int | 1800000 | medium | read-only
    The longest session that a group member may ask for.
group.initial.rebalance.delay.ms | int | 3000 | medium | read-only
    How long a new group waits for more members before its first assignment.
group.max.size | int | 2147483647 | medium | read-only
    valid: 1..
    How many members a group may have.
group.coordinator.rebalance.protocols | list | classic | medium | read-only
    valid: consumer, classic, share, unknown
    refused: classic groups are served
    The rebalance protocols that are offered.
group.coordinator.append.linger.ms | int | 10 | medium | read-only
    valid: 0..
    without effect
    How long the new coordinator gathers writes.
group.coordinator.threads | int | 1 | medium | read-only
    valid: 1..
    without effect
    Threads of the new coordinator.
group.consumer.assignors | list | \
org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor | \
medium | read-only
    without effect
    Assignors of consumer groups of the new protocol.
group.consumer.heartbeat.interval.ms | int | 5000 | medium | read-only
    valid: 1..
    without effect
    The heartbeat interval of groups of the new protocol.
group.consumer.min.heartbeat.interval.ms | int | 5000 | medium | read-only
    valid: 1..
    without effect
    The least heartbeat interval of groups of the new protocol.
group.consumer.max.heartbeat.interval.ms | int | 15000 | medium | read-only
    valid: 1..
    without effect
    The greatest heartbeat interval of groups of the new protocol.
group.consumer.session.timeout.ms | int | 45000 | medium | read-only
    valid: 1..
    without effect
    The session of members of the new protocol.
group.consumer.min.session.timeout.ms | int | 45000 | medium | read-only
    valid: 1..
    without effect
    The shortest session of members of the new protocol.
group.consumer.max.session.timeout.ms | int | 60000 | medium | read-only
    valid: 1..
    without effect
    The longest session of members of the new protocol.
group.consumer.max.size | int | 2147483647 | medium | read-only
    valid: 1..
    without effect
    How many members a group of the new protocol may have.
offset.metadata.max.bytes | int | 4096 | high | read-only
    The longest text that may be stored with a committed offset.
offsets.load.buffer.size | int | 5242880 | high | read-only
    valid: 1..
    How many bytes are read at a time when committed offsets are loaded.
offsets.retention.minutes | int | 10080 | high | read-only
    valid: 1..
    How long the offsets of an empty group are kept.
offsets.retention.check.interval.ms | long | 600000 | high | read-only
    valid: 1..
    How often committed offsets are looked at for expiry.
offsets.topic.num.partitions | int | 50 | high | read-only
    valid: 1..
    The number of partitions of the topic of committed offsets; not to be changed later.
offsets.topic.replication.factor | short | 3 | high | read-only
    valid: 1..
    The replication factor of the topic of committed offsets; its creation waits for as many brokers.
offsets.topic.segment.bytes | int | 104857600 | high | read-only
    valid: 1..
    The segment size of the topic of committed offsets.
offsets.topic.compression.codec | int | 0 | high | read-only
    The codec of batches of committed offsets, by its number.
offsets.commit.timeout.ms | int | 5000 | high | read-only
    valid: 1..
    How long a commit waits for the replicas.
offsets.commit.required.acks | short | -1 | high | read-only
    The acks of a commit; -1 waits for all in-sync replicas.
transactional.id.expiration.ms | int | 604800000 | high | read-only
    valid: 1..
    How long an unused transactional id is remembered.
transaction.max.timeout.ms | int | 900000 | high | read-only
    valid: 1..
    The longest timeout that a transaction may ask for.
transaction.state.log.num.partitions | int | 50 | high | read-only
    valid: 1..
    The number of partitions of the topic of transaction state; not to be changed later.
transaction.state.log.replication.factor | short | 3 | high | read-only
    valid: 1..
    The replication factor of the topic of transaction state; its creation waits for as many brokers.
transaction.state.log.min.isr | int | 2 | high | read-only
    valid: 1..
    How many replicas of the transaction state must be in sync for a write.
transaction.state.log.segment.bytes | int | 104857600 | high | read-only
    valid: 1..
    The segment size of the topic of transaction state.
transaction.state.log.load.buffer.size | int | 5242880 | high | read-only
    valid: 1..
    How many bytes are read at a time when transaction state is loaded.
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | low | read-only
    valid: 1..
    How often transactions that have timed out are aborted.
transaction.remove.expired.transaction.cleanup.interval.ms | int | 3600000 | low | read-only
    valid: 1..
    How often expired transactional ids are removed.
transaction.partition.verification.enable | boolean | true | low | cluster-wide
    Whether a transactional write is checked against the coordinator.
"""
