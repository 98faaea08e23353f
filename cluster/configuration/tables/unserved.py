"""Known to Kafka and not served here: KRaft, share groups and remote storage."""

from typing import Final

TABLE: Final = """
process.roles | list | | high | read-only
    valid: broker, controller
    refused: brokers coordinate through ZooKeeper
    The roles of a KRaft server.
controller.listener.names | string | null | high | read-only
    refused: brokers coordinate through ZooKeeper
    The listeners of a KRaft controller.
controller.quorum.voters | list | | high | read-only
    refused: brokers coordinate through ZooKeeper
    The voters of a KRaft quorum.
controller.quorum.bootstrap.servers | list | | high | read-only
    refused: brokers coordinate through ZooKeeper
    Where a KRaft quorum is found.
controller.quorum.election.backoff.max.ms | int | 1000 | high | read-only
    without effect
    The rest between elections of a KRaft quorum.
controller.quorum.election.timeout.ms | int | 1000 | high | read-only
    without effect
    The patience of a KRaft voter with an election.
controller.quorum.fetch.timeout.ms | int | 2000 | high | read-only
    without effect
    The patience of a KRaft voter with its leader.
controller.quorum.append.linger.ms | int | 25 | medium | read-only
    without effect
    How long a KRaft leader gathers writes.
controller.quorum.request.timeout.ms | int | 2000 | medium | read-only
    without effect
    The patience with a request within a KRaft quorum.
controller.quorum.retry.backoff.ms | int | 20 | low | read-only
    without effect
    The rest between retries within a KRaft quorum.
sasl.mechanism.controller.protocol | string | GSSAPI | high | read-only
    without effect
    The SASL mechanism towards KRaft controllers.
eligible.leader.replicas.enable | boolean | false | high | read-only
    refused: eligible leader replicas belong to KRaft
    Whether eligible leader replicas are tracked.
initial.broker.registration.timeout.ms | int | 60000 | medium | read-only
    without effect
    The patience of a KRaft broker with its registration.
broker.heartbeat.interval.ms | int | 2000 | medium | read-only
    without effect
    The heartbeat of a KRaft broker.
broker.session.timeout.ms | int | 9000 | medium | read-only
    without effect
    The session of a KRaft broker.
metadata.log.dir | string | null | high | read-only
    without effect
    The directory of a KRaft metadata log.
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | high | read-only
    valid: 1..
    without effect
    The bytes between snapshots of a KRaft metadata log.
metadata.log.max.snapshot.interval.ms | long | 3600000 | high | read-only
    valid: 0..
    without effect
    The time between snapshots of a KRaft metadata log.
metadata.log.segment.bytes | int | 1073741824 | high | read-only
    valid: 12..
    without effect
    The segment size of a KRaft metadata log.
metadata.log.segment.ms | long | 604800000 | high | read-only
    without effect
    The segment age of a KRaft metadata log.
metadata.max.retention.bytes | long | 104857600 | high | read-only
    without effect
    The size of a KRaft metadata log.
metadata.max.retention.ms | long | 604800000 | high | read-only
    without effect
    The age of a KRaft metadata log.
metadata.max.idle.interval.ms | int | 500 | low | read-only
    valid: 0..
    without effect
    How often an idle KRaft controller writes.
group.share.delivery.count.limit | int | 5 | medium | read-only
    valid: 2..10
    without effect
    Deliveries of a record to a share group.
group.share.heartbeat.interval.ms | int | 5000 | medium | read-only
    valid: 1..
    without effect
    The heartbeat interval of share groups.
group.share.min.heartbeat.interval.ms | int | 5000 | medium | read-only
    valid: 1..
    without effect
    The least heartbeat interval of share groups.
group.share.max.heartbeat.interval.ms | int | 15000 | medium | read-only
    valid: 1..
    without effect
    The greatest heartbeat interval of share groups.
group.share.session.timeout.ms | int | 45000 | medium | read-only
    valid: 1..
    without effect
    The session of share group members.
group.share.min.session.timeout.ms | int | 45000 | medium | read-only
    valid: 1..
    without effect
    The shortest session of share group members.
group.share.max.session.timeout.ms | int | 60000 | medium | read-only
    valid: 1..
    without effect
    The longest session of share group members.
group.share.max.groups | short | 10 | medium | read-only
    valid: 1..100
    without effect
    How many share groups there may be.
group.share.max.size | short | 200 | medium | read-only
    valid: 10..1000
    without effect
    How many members a share group may have.
group.share.partition.max.record.locks | int | 200 | medium | read-only
    valid: 100..10000
    without effect
    Records of a partition that a share group may hold.
group.share.record.lock.duration.ms | int | 30000 | medium | read-only
    valid: 1000..60000
    without effect
    How long a share group holds a record.
group.share.min.record.lock.duration.ms | int | 15000 | medium | read-only
    valid: 1000..30000
    without effect
    The shortest hold of a record by a share group.
group.share.max.record.lock.duration.ms | int | 60000 | medium | read-only
    valid: 30000..3600000
    without effect
    The longest hold of a record by a share group.
remote.log.storage.system.enable | boolean | false | medium | read-only
    refused: the log lives on local disks
    Whether segments are also kept in remote storage.
remote.fetch.max.wait.ms | int | 500 | medium | cluster-wide
    valid: 1..
    without effect
    How long a fetch waits for remote storage.
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | low | cluster-wide
    valid: 1..
    without effect
    The cache of indexes of remote segments.
remote.log.manager.copier.thread.pool.size | int | -1 | medium | read-only
    valid: -1, 1..
    without effect
    Threads that copy to remote storage.
remote.log.manager.copy.max.bytes.per.second | long | 9223372036854775807 | medium | cluster-wide
    valid: 1..
    without effect
    Bytes copied to remote storage a second.
remote.log.manager.copy.quota.window.num | int | 11 | medium | read-only
    valid: 1..
    without effect
    Windows of the quota of copies to remote storage.
remote.log.manager.copy.quota.window.size.seconds | int | 1 | medium | read-only
    valid: 1..
    without effect
    The window of the quota of copies to remote storage.
remote.log.manager.expiration.thread.pool.size | int | -1 | medium | read-only
    valid: -1, 1..
    without effect
    Threads that expire remote segments.
remote.log.manager.fetch.max.bytes.per.second | long | 9223372036854775807 | medium | cluster-wide
    valid: 1..
    without effect
    Bytes read from remote storage a second.
remote.log.manager.fetch.quota.window.num | int | 11 | medium | read-only
    valid: 1..
    without effect
    Windows of the quota of reads from remote storage.
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | medium | read-only
    valid: 1..
    without effect
    The window of the quota of reads from remote storage.
remote.log.manager.task.interval.ms | long | 30000 | low | read-only
    valid: 1..
    without effect
    How often remote storage is attended to.
remote.log.manager.thread.pool.size | int | 10 | medium | read-only
    valid: 1..
    without effect
    Threads that attend to remote storage.
remote.log.metadata.custom.metadata.max.bytes | int | 128 | low | read-only
    valid: 0..
    without effect
    The largest custom metadata of a remote segment.
remote.log.metadata.manager.class.name | string | \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | \
medium | read-only
    without effect
    The Java class that keeps metadata of remote segments.
remote.log.metadata.manager.class.path | string | null | medium | read-only
    without effect
    Where that class is found.
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | medium | read-only
    without effect
    The prefix of that class's settings.
remote.log.metadata.manager.listener.name | string | null | medium | read-only
    without effect
    The listener that that class uses.
remote.log.reader.max.pending.tasks | int | 100 | medium | read-only
    valid: 1..
    without effect
    Reads of remote storage that may wait.
remote.log.reader.threads | int | 10 | medium | read-only
    valid: 1..
    without effect
    Threads that read remote storage.
remote.log.storage.manager.class.name | string | null | medium | read-only
    without effect
    The Java class that is the remote storage.
remote.log.storage.manager.class.path | string | null | medium | read-only
    without effect
    Where that class is found.
remote.log.storage.manager.impl.prefix | string | rsm.config. | medium | read-only
    without effect
    The prefix of that class's settings.
"""
