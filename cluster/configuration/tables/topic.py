"""Settings of a topic. All of them can change while the cluster runs."""

from typing import Final

TABLE: Final = """
cleanup.policy | list | delete | medium | cluster-wide
    valid: compact, delete
    What becomes of old segments: delete, compact, or both.
compression.gzip.level | int | -1 | medium | cluster-wide
    valid: -1, 1..9
    The level used where batches are recompressed with gzip.
compression.lz4.level | int | 9 | medium | cluster-wide
    valid: 1..17
    The level used where batches are recompressed with lz4.
compression.type | string | producer | medium | cluster-wide
    valid: uncompressed, zstd, lz4, snappy, gzip, producer
    The codec of the stored batches: a codec, uncompressed, or the producer's own.
compression.zstd.level | int | 3 | medium | cluster-wide
    valid: -131072..22
    The level used where batches are recompressed with zstd.
delete.retention.ms | long | 86400000 | medium | cluster-wide
    valid: 0..
    How long a tombstone is kept in a compacted log.
file.delete.delay.ms | long | 60000 | medium | cluster-wide
    valid: 0..
    How long the files of a deleted segment stay before they are removed.
flush.messages | long | 9223372036854775807 | medium | cluster-wide
    valid: 1..
    How many records may be appended to a partition before it is flushed to disk.
flush.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How long a record may stay unflushed.
follower.replication.throttled.replicas | list | | medium | cluster-wide
    The replicas whose copying is throttled on the follower: partition:broker pairs, or * for all.
index.interval.bytes | int | 4096 | medium | cluster-wide
    valid: 0..
    How many bytes of log lie between two entries of the offset index.
leader.replication.throttled.replicas | list | | medium | cluster-wide
    The replicas whose copying is throttled on the leader: partition:broker pairs, or * for all.
local.retention.bytes | long | -2 | medium | cluster-wide
    valid: -2..
    without effect
    How many bytes that have been copied to remote storage stay here.
local.retention.ms | long | -2 | medium | cluster-wide
    valid: -2..
    without effect
    How long segments that have been copied to remote storage stay here.
max.compaction.lag.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 1..
    How long a record may stay uncompacted.
max.message.bytes | int | 1048588 | medium | cluster-wide
    valid: 0..
    The largest record batch that is accepted, after compression.
message.format.version | string | 3.0-IV1 | medium | cluster-wide
    valid: release
    without effect
    The record format of old releases; since format 2 it has no effect.
message.timestamp.after.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How far a record's time may lie after now.
message.timestamp.before.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How far a record's time may lie before now.
message.timestamp.difference.max.ms | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    The largest accepted distance of a record's time from now, both ways; superseded by the two others.
message.timestamp.type | string | CreateTime | medium | cluster-wide
    valid: CreateTime, LogAppendTime
    Whether a record's time is the producer's (CreateTime) or the broker's (LogAppendTime).
min.cleanable.dirty.ratio | double | 0.5 | medium | cluster-wide
    valid: 0..1
    The share of uncompacted bytes at which a log is compacted.
min.compaction.lag.ms | long | 0 | medium | cluster-wide
    valid: 0..
    How long a record stays out of compaction.
min.insync.replicas | int | 1 | medium | cluster-wide
    valid: 1..
    How many replicas must be in sync for a write with acks=all to be accepted.
preallocate | boolean | false | medium | cluster-wide
    Whether a segment's file is given its full size when it is created, and cut to what it holds when it is finished.
remote.log.copy.disable | boolean | false | medium | cluster-wide
    without effect
    Whether copying to remote storage is stopped.
remote.log.delete.on.disable | boolean | false | medium | cluster-wide
    without effect
    Whether the remote log goes when remote storage is switched off.
remote.storage.enable | boolean | false | medium | cluster-wide
    refused: the log lives on local disks
    Whether the topic's segments are also kept in remote storage.
retention.bytes | long | -1 | medium | cluster-wide
    The size of a partition above which its oldest segments are deleted; -1 sets no limit.
retention.ms | long | 604800000 | medium | cluster-wide
    valid: -1..
    How long closed segments are kept; -1 keeps them for ever.
segment.bytes | int | 1073741824 | medium | cluster-wide
    valid: 14..
    The size at which a segment is rolled.
segment.index.bytes | int | 10485760 | medium | cluster-wide
    valid: 4..
    The largest size of a segment's index; a full index rolls the segment.
segment.jitter.ms | long | 0 | medium | cluster-wide
    valid: 0..
    The most that is taken at random from the roll age, so that segments do not roll together.
segment.ms | long | 604800000 | medium | cluster-wide
    valid: 1..
    The age at which a segment is rolled.
unclean.leader.election.enable | boolean | false | medium | cluster-wide
    Whether a replica that is not in sync may lead where no other is left; records may be lost.
message.downconversion.enable | boolean | true | low | cluster-wide
    Whether batches are converted to an old format for an old consumer.
"""
