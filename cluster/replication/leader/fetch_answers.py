"""The answers for single partitions of a fetch, and how far their logs may be read."""

from typing import TYPE_CHECKING, Final

from cluster.replication.leader.fetch_session import FetchItem, Isolation
from storage.errors import OffsetOutOfRangeError
from wire.errors import Error
from wire.messages.fetch import EpochEndOffset, PartitionData
from wire.types import NO_OFFSET, BrokerId, Offset

if TYPE_CHECKING:
    from storage.log import Log


def failed_partition(partition_index: int, error: Error) -> PartitionData:
    """Return the answer for a partition that cannot be read."""
    return PartitionData(
        partition_index=partition_index, error_code=int(error), high_watermark=NO_OFFSET, records=b""
    )


NO_DIVERGENCE: Final = PartitionData().diverging_epoch
"""The default object itself: the encoder compares identities to see that there is nothing to send."""


def empty_partition(
    item: FetchItem, log: "Log", preferred: BrokerId, diverging: EpochEndOffset = NO_DIVERGENCE
) -> PartitionData:
    """Return the answer for a partition without records to send."""
    return PartitionData(
        partition_index=item.partition_index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        preferred_read_replica=preferred,
        aborted_transactions=() if item.session.isolation is Isolation.COMMITTED else None,
        records=b"",
        diverging_epoch=diverging,
    )


def readable_end(log: "Log", isolation: Isolation) -> Offset:
    """Return the offset that a fetch reads up to."""
    if isolation is Isolation.LOG_END:
        return log.log_end_offset
    if isolation is Isolation.HIGH_WATERMARK:
        return log.high_watermark
    return log.last_stable_offset


def divergence(log: "Log", item: FetchItem, leader_end: Offset) -> EpochEndOffset | None:
    """Return where a follower's log diverges from ours; None if, judging by its last record, it does not.

    Raises:
        OffsetOutOfRangeError: we do not know the epoch of its last record, or it asks for records that we have deleted.
    """
    end = log.leader_epochs.end_offset_for(item.last_fetched_epoch, leader_end)
    if end is None:
        raise OffsetOutOfRangeError(f"nothing is known of leader epoch {item.last_fetched_epoch}")
    if item.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRangeError(f"offset {item.fetch_offset} lies before the log's start")
    if end.epoch < item.last_fetched_epoch or end.end_offset < item.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None
