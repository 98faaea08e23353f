"""Applies a leader's answer to the follower's log: records, watermarks, truncation where the logs diverge."""

import logging
from typing import TYPE_CHECKING

from cluster.replication.follower.fetch_state import FIRST_BACKOFF_S, FetchState, truncation_offset
from storage.errors import UnexpectedAppendOffsetError
from wire.types import Offset

if TYPE_CHECKING:
    from cluster.metrics.registry import Counter
    from cluster.replication.throttle import Throttle
    from storage.log import Log
    from wire.messages.fetch import EpochEndOffset, PartitionData

logger = logging.getLogger(__name__)


class FollowerWrites:
    """The writes of one fetcher.

    Args:
        bytes_in: Counts the bytes that were appended.
        throttle: Limits what is copied while catching up; None for no limit.

    Attributes:
        appended: The logs that were appended to; a flush takes them out.
        truncated: The logs that were truncated, likewise.
    """

    __slots__ = ("_bytes_in", "_throttle", "appended", "truncated")

    def __init__(self, bytes_in: "Counter", throttle: "Throttle | None") -> None:
        self._bytes_in = bytes_in
        self._throttle = throttle
        self.appended: dict[Log, None] = {}
        self.truncated: dict[Log, None] = {}

    def write(self, state: FetchState, log: "Log", data: "PartitionData") -> bool:
        """Apply one partition's answer; return whether the next fetch must send new values for the partition.

        Raises:
            CorruptBatchError: the records are damaged; nothing was written.
            LogError: the log refused them, or its disk failed.
        """
        if data.diverging_epoch.end_offset >= 0:
            self._truncate(state, log, data.diverging_epoch)
            return True
        has_moved = bool(data.records is not None and len(data.records)) and self._append(state, log, data)
        return self._follow_watermarks(state, log, data) or has_moved

    def _append(self, state: FetchState, log: "Log", data: "PartitionData") -> bool:
        records = memoryview(data.records)  # type: ignore[arg-type]
        try:
            result = log.append_as_follower(records)
        except UnexpectedAppendOffsetError as error:
            # The leader's log starts in the middle of a batch, after a DeleteRecords, and ours is empty.
            end = log.log_end_offset
            if end != log.log_start_offset or not error.first_offset < end <= error.last_offset:
                raise
            log.truncate_fully_and_start_at(Offset(error.first_offset), end)
            result = log.append_as_follower(records)
        if result.last_offset < 0:
            return False
        self._bytes_in.value += result.size
        throttle = self._throttle
        if throttle is not None and throttle.is_on and throttle.applies_to(log):
            throttle.record(result.size)
        self.appended[log] = None
        state.moved_to(log.log_end_offset, log.leader_epochs.latest)
        state.backoff_s = FIRST_BACKOFF_S
        return True

    def _follow_watermarks(self, state: FetchState, log: "Log", data: "PartitionData") -> bool:
        """Adopt the leader's high watermark and log start; return whether our log starts later now."""
        before = log.high_watermark
        after = log.set_high_watermark(data.high_watermark)
        starts_later = data.log_start_offset > log.log_start_offset and log.advance_log_start(
            min(data.log_start_offset, after)
        )
        if after != before:
            state.partition.waiters.fire_watermark()
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        return starts_later

    def _truncate(self, state: FetchState, log: "Log", diverging: "EpochEndOffset") -> None:
        target = truncation_offset(log, diverging.epoch, diverging.end_offset, state.fetch_offset)
        level = logging.WARNING if target < log.high_watermark else logging.INFO
        logger.log(
            level,
            "truncating %s from %d to %d (high watermark %d): the leader's epoch %d ends at %d",
            state.topic_partition,
            log.log_end_offset,
            target,
            log.high_watermark,
            diverging.epoch,
            diverging.end_offset,
        )
        log.truncate_suffix(target)
        self.truncated[log] = None
        state.moved_to(log.log_end_offset, log.leader_epochs.latest)
        state.partition.truncated()
