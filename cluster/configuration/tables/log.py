"""The log: segments, retention, compaction, flushing, and defaults of topics."""

from typing import Final

TABLE: Final = """
log.dir | string | /tmp/kafka-logs | high | read-only
    The directory of the log where `log.dirs` is not given.
log.dirs | string | null | high | read-only
    The directories of the log, comma-separated.
log.dir.failure.timeout.ms | long | 30000 | low | read-only
    valid: 1..
    without effect
    How long a KRaft broker may leave a failed directory unreported.
num.recovery.threads.per.data.dir | int | 1 | high | cluster-wide
    valid: 1..
    Workers that recover and flush the logs of a directory at start and stop.
num.partitions | int | 1 | medium | read-only
    valid: 1..
    The number of partitions of a topic that is created without one.
default.replication.factor | int | 1 | medium | read-only
    The replication factor of a topic that is created without one.
auto.create.topics.enable | boolean | true | high | read-only
    Whether asking for the metadata of an unknown topic creates it.
delete.topic.enable | boolean | true | high | read-only
    Whether topics may be deleted.
message.max.bytes | int | 1048588 | high | cluster-wide
    valid: 0..
    The largest record batch that is accepted, after compression.
min.insync.replicas | int | 1 | high | cluster-wide
    valid: 1..
    How many replicas must be in sync for a write with acks=all to be accepted.
compression.type | string | producer | high | cluster-wide
    valid: uncompressed, zstd, lz4, snappy, gzip, producer
    The codec of the stored batches: a codec, uncompressed, or the producer's own.
compression.gzip.level | int | -1 | medium | cluster-wide
    valid: -1, 1..9
    The level used where batches are recompressed with gzip.
compression.lz4.level | int | 9 | medium | cluster-wide
    valid: 1..17
    The level used where batches are recompressed with lz4.
compression.zstd.level | int | 3 | medium | cluster-wide
    valid: -131072..22
    The level used where batches are recompressed with zstd.
log.segment.bytes | int | 1073741824 | high | cluster-wide
    valid: 14..
    The size at which a segment is rolled.
log.roll.ms | long | null | high | cluster-wide
    The age at which a segment is rolled; `log.roll.hours` where not given.
log.roll.hours | int | 168 | high | read-only
    valid: 1..
    The age at which a segment is rolled, in hours.
log.roll.jitter.ms | long | null | high | cluster-wide
    The most that is taken at random from the roll age, so that segments do not roll together.
log.roll.jitter.hours | int | 0 | high | read-only
    valid: 0..
    The most that is taken at random from the roll age, in hours.
log.retention.ms | long | null | high | cluster-wide
    How long closed segments are kept; -1 keeps them for ever. Goes before minutes and hours.
log.retention.minutes | int | null | high | read-only
    How long closed segments are kept, in minutes. Goes before hours.
log.retention.hours | int | 168 | high | read-only
    How long closed segments are kept, in hours.
log.retention.bytes | long | -1 | high | cluster-wide
    The size of a partition above which its oldest segments are deleted; -1 sets no limit.
log.retention.check.interval.ms | long | 300000 | medium | read-only
    valid: 1..
    How often segments are looked at for deletion.
log.cleanup.policy | list | delete | medium | cluster-wide
    valid: compact, delete
    What becomes of old segments: delete, compact, or both.
log.index.interval.bytes | int | 4096 | medium | cluster-wide
    valid: 0..
    How many bytes of log lie between two entries of the offset index.
log.index.size.max.bytes | int | 10485760 | medium | cluster-wide
    valid: 4..
    The largest size of a segment's index; a full index rolls the segment.
log.segment.delete.delay.ms | long | 60000 | high | cluster-wide
    valid: 0..
    How long the files of a deleted segment stay before they are removed.
log.preallocate | boolean | false | medium | cluster-wide
    Whether a segment's file is given its full size when it is created, and cut to what it holds when it is finished.
log.flush.interval.messages | long | 9223372036854775807 | high | cluster-wide
    valid: 1..
    How many records may be appended to a partition before it is flushed to disk.
log.flush.interval.ms | long | null | high | cluster-wide
    How long a record may stay unflushed; `log.flush.scheduler.interval.ms` where not given.
log.flush.scheduler.interval.ms | long | 9223372036854775807 | high | read-only
    How often partitions are looked at for flushing.
log.flush.offset.checkpoint.interval.ms | int | 60000 | high | read-only
    valid: 0..
    How often recovery points are written to their checkpoint file.
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | high | read-only
    valid: 0..
    How often log start offsets are written to their checkpoint file.
log.message.timestamp.type | string | CreateTime | medium | cluster-wide
    valid: CreateTime, LogAppendTime
    Whether a record's time is the producer's (CreateTime) or the broker's (LogAppendTime).
log.message.timestamp.difference.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    The largest accepted distance of a record's time from now, both ways; superseded by the two below.
log.message.timestamp.before.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How far a record's time may lie before now.
log.message.timestamp.after.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How far a record's time may lie after now.
log.message.downconversion.enable | boolean | true | low | cluster-wide
    Whether batches are converted to an old format for an old consumer.
log.message.format.version | string | 3.0-IV1 | medium | read-only
    valid: release
    without effect
    The record format of old releases; since format 2 it has no effect.
log.cleaner.enable | boolean | true | medium | read-only
    Whether compaction runs.
log.cleaner.threads | int | 1 | medium | cluster-wide
    valid: 0..
    How many workers compact.
log.cleaner.backoff.ms | long | 15000 | medium | cluster-wide
    valid: 0..
    How long the cleaner rests when there is nothing to clean.
log.cleaner.dedupe.buffer.size | long | 134217728 | medium | cluster-wide
    The memory for the cleaner's map of keys, over all its workers.
log.cleaner.io.buffer.size | int | 524288 | medium | cluster-wide
    valid: 0..
    without effect
    The memory for the cleaner's reads and writes; here a batch is read at a time, whatever its size.
log.cleaner.io.buffer.load.factor | double | 0.9 | medium | cluster-wide
    How full the cleaner's map of keys may become.
log.cleaner.io.max.bytes.per.second | double | 1.7976931348623157E308 | medium | cluster-wide
    The bytes that the cleaner reads and writes a second, at most.
log.cleaner.min.cleanable.ratio | double | 0.5 | medium | cluster-wide
    valid: 0..1
    The share of uncompacted bytes at which a log is compacted.
log.cleaner.delete.retention.ms | long | 86400000 | medium | cluster-wide
    valid: 0..
    How long a tombstone is kept in a compacted log.
log.cleaner.min.compaction.lag.ms | long | 0 | medium | cluster-wide
    valid: 0..
    How long a record stays out of compaction.
log.cleaner.max.compaction.lag.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 1..
    How long a record may stay uncompacted.
producer.id.expiration.ms | int | 86400000 | low | cluster-wide
    valid: 1..
    How long the state of an idle idempotent producer is kept.
log.local.retention.ms | long | -2 | medium | cluster-wide
    valid: -2..
    without effect
    How long segments that have been copied to remote storage stay here.
log.local.retention.bytes | long | -2 | medium | cluster-wide
    valid: -2..
    without effect
    How many bytes that have been copied to remote storage stay here.
background.threads | int | 10 | high | cluster-wide
    valid: 1..
    without effect
    Threads for background work; here tasks of the event loop.
"""
