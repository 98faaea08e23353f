"""Look-ups of offsets for clients and followers: by time, the first, the last, and the end of a leader epoch."""

from typing import Final

from cluster.replication.leader.fetch_session import Isolation
from cluster.replication.partition.partition import Partition
from storage.log import Log
from storage.timestamps import TimestampedOffset
from wire.errors import ApiError, Error
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, WallMs

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


def find_offset(
    partition: Partition,
    timestamp: int,
    isolation: Isolation,
    current_leader_epoch: int,
    *,
    require_leader: bool,
) -> TimestampedOffset | None:
    """Find the first offset at or after a time, or one of the named ones.

    Just after an election a leader's high watermark can be lower than the one that its predecessor had shown to
    consumers. While it is below the start of the leader's epoch, a consumer gets no answer that depends on it.

    Args:
        partition: Where to look.
        timestamp: In milliseconds, or a named offset.
        isolation: How far the client reads; ``LOG_END`` for followers.
        current_leader_epoch: The epoch that the client knows, or -1.
        require_leader: Whether only the leader may answer.

    Returns:
        The offset; None if no record is that recent.

    Raises:
        ApiError: the epoch does not fit, this broker does not lead, or OFFSET_NOT_AVAILABLE.
        LogError: the log cannot be read.
    """
    log = partition.local_log(current_leader_epoch, require_leader=require_leader)
    end = _readable_end(log, isolation)
    epoch_start = None if partition.leader is None else partition.leader.epoch_start
    is_behind = (
        isolation is not Isolation.LOG_END and epoch_start is not None and epoch_start > log.high_watermark
    )
    if timestamp == LATEST:
        if is_behind:
            raise ApiError(Error.OFFSET_NOT_AVAILABLE, _behind(partition, epoch_start, log))
        return TimestampedOffset(NO_TIMESTAMP, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.earliest()
    if timestamp == LATEST_TIERED:
        return TimestampedOffset(NO_TIMESTAMP, NO_OFFSET, NO_LEADER_EPOCH)
    newest = timestamp == MAX_TIMESTAMP
    found = log.find_max_timestamp() if newest else log.find_offset_by_timestamp(WallMs(timestamp))
    if found is not None and found.offset < end:
        return found
    if is_behind:
        raise ApiError(Error.OFFSET_NOT_AVAILABLE, _behind(partition, epoch_start, log))
    return None


def legacy_offsets(
    partition: Partition, timestamp: int, max_count: int, *, is_consumer: bool, require_leader: bool
) -> list[Offset]:
    """Return segment starts up to a time, latest first: what ListOffsets 0 asks for.

    Raises:
        ApiError: this broker does not lead.
    """
    log = partition.local_log(NO_LEADER_EPOCH, require_leader=require_leader)
    places = [
        (max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments
    ]
    if log.active_segment.size:
        places.append((log.log_end_offset, WallMs(2**63 - 1)))
    if timestamp == LATEST:
        last = len(places) - 1
    elif timestamp == EARLIEST:
        last = 0
    else:
        last = max((slot for slot, (_, modified) in enumerate(places) if modified <= timestamp), default=-1)
    offsets = sorted((offset for offset, _ in places[: last + 1]), reverse=True)[:max_count]
    if is_consumer and any(offset > log.high_watermark for offset in offsets):
        return [log.high_watermark, *(offset for offset in offsets if offset <= log.high_watermark)][
            :max_count
        ]
    return offsets


def find_epoch_end(
    partition: Partition, leader_epoch: LeaderEpoch, current_leader_epoch: int
) -> tuple[LeaderEpoch, Offset]:
    """Return the largest known leader epoch not above one, and where it ended; -1 for both if unknown.

    Raises:
        ApiError: the client's epoch does not fit, or this broker does not lead.
    """
    log = partition.local_log(current_leader_epoch, require_leader=True)
    end = log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)
    return (NO_LEADER_EPOCH, NO_OFFSET) if end is None else (end.epoch, end.end_offset)


def _readable_end(log: Log, isolation: Isolation) -> Offset:
    if isolation is Isolation.LOG_END:
        return log.log_end_offset
    return log.high_watermark if isolation is Isolation.HIGH_WATERMARK else log.last_stable_offset


def _behind(partition: Partition, epoch_start: Offset | None, log: Log) -> str:
    return (
        f"{partition.topic_partition}: the high watermark {log.high_watermark} has not reached "
        f"the start {epoch_start} of the leader's epoch"
    )
