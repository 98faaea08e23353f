"""Replicas, the controller, and the broker's own identity."""

from typing import Final

TABLE: Final = """
broker.id | int | -1 | high | read-only
    The id of this broker; -1 takes a generated one.
node.id | int | -1 | high | read-only
    The id of this broker under its newer name; equal to `broker.id` where both are given.
broker.id.generation.enable | boolean | true | medium | read-only
    Whether a broker without an id takes one from a counter in ZooKeeper.
reserved.broker.max.id | int | 1000 | medium | read-only
    valid: 0..
    The largest id that may be given by hand; generated ones lie above.
broker.rack | string | null | medium | read-only
    The rack (zone, host) of this broker: replicas of a partition are spread over racks.
inter.broker.protocol.version | string | 3.9-IV0 | medium | read-only
    valid: release
    The release whose protocol brokers speak to each other: 3.0 to 3.9.
num.replica.fetchers | int | 1 | high | cluster-wide
    How many fetchers copy from each other broker.
replica.fetch.min.bytes | int | 1 | high | read-only
    The least that a follower's fetch waits for.
replica.fetch.wait.max.ms | int | 500 | high | read-only
    How long a follower's fetch waits for data.
replica.fetch.max.bytes | int | 1048576 | medium | read-only
    valid: 0..
    The most that a follower fetches of one partition; its first batch comes whole.
replica.fetch.response.max.bytes | int | 10485760 | medium | read-only
    valid: 0..
    The most that a follower fetches in one answer; its first batch comes whole.
replica.fetch.backoff.ms | int | 1000 | medium | read-only
    valid: 0..
    How long a follower rests after a failed fetch.
replica.lag.time.max.ms | long | 30000 | high | read-only
    A follower that has not caught up for this long leaves the in-sync replicas.
replica.socket.timeout.ms | int | 30000 | high | read-only
    How long a follower waits for the answer to its fetch.
replica.socket.receive.buffer.bytes | int | 65536 | high | read-only
    without effect
    The receive buffer of a follower's connection; the system's own is used.
replica.high.watermark.checkpoint.interval.ms | long | 5000 | high | read-only
    How often high watermarks are written to their checkpoint file.
replica.selector.class | string | null | medium | read-only
    valid: org.apache.kafka.common.replica.LeaderSelector, org.apache.kafka.common.replica.RackAwareReplicaSelector
    How a consumer's preferred replica is chosen: the leader, or one in the consumer's rack.
num.replica.alter.log.dirs.threads | int | null | high | read-only
    valid: 1..
    How many replicas are copied between directories at a time; as many as there are directories where it is not given.
unclean.leader.election.enable | boolean | false | high | cluster-wide
    Whether a replica that is not in sync may lead where no other is left; records may be lost.
auto.leader.rebalance.enable | boolean | true | high | read-only
    Whether leadership returns to preferred replicas by itself.
leader.imbalance.check.interval.seconds | long | 300 | high | read-only
    valid: 1..
    How often the balance of leaders is looked at.
leader.imbalance.per.broker.percentage | int | 10 | high | read-only
    The share of a broker's partitions led elsewhere at which leadership is given back.
controlled.shutdown.enable | boolean | true | medium | read-only
    Whether a stopping broker first gives its leaders away.
controlled.shutdown.max.retries | int | 3 | medium | read-only
    How often a stopping broker asks the controller again.
controlled.shutdown.retry.backoff.ms | long | 5000 | medium | read-only
    How long a stopping broker rests between two such requests.
controller.socket.timeout.ms | int | 30000 | medium | read-only
    How long the controller waits for a broker's answer.
fetch.max.bytes | int | 57671680 | medium | read-only
    valid: 1024..
    The most that an answer to a fetch carries, whatever the client asks for.
max.incremental.fetch.session.cache.slots | int | 1000 | medium | read-only
    valid: 0..
    How many fetch sessions are kept.
fetch.purgatory.purge.interval.requests | int | 1000 | medium | read-only
    without effect
    How many finished waiting fetches may stay in memory; here they leave at once.
producer.purgatory.purge.interval.requests | int | 1000 | medium | read-only
    without effect
    How many finished waiting produces may stay in memory; here they leave at once.
delete.records.purgatory.purge.interval.requests | int | 1 | medium | read-only
    without effect
    How many finished waiting deletions may stay in memory; here they leave at once.
zookeeper.connect | string | null | high | read-only
    The ZooKeeper servers as host:port pairs, with an optional path under which everything lies.
zookeeper.connection.timeout.ms | int | null | high | read-only
    How long the first connection to ZooKeeper may take; the session timeout where not given.
zookeeper.session.timeout.ms | int | 18000 | high | read-only
    How long ZooKeeper keeps the session of a broker that it does not hear.
zookeeper.max.in.flight.requests | int | 10 | high | read-only
    valid: 1..
    without effect
    How many requests to ZooKeeper may be unanswered at a time; here they are sent as they come.
zookeeper.set.acl | boolean | false | high | read-only
    Whether znodes are created with access control.
zookeeper.metadata.migration.enable | boolean | false | high | read-only
    refused: migration to KRaft is not served
    Whether the cluster is being migrated to KRaft.
zookeeper.clientCnxnSocket | string | null | medium | read-only
    without effect
    The Java class of ZooKeeper's connection.
zookeeper.ssl.client.enable | boolean | false | medium | read-only
    Whether ZooKeeper is reached over TLS.
"""
