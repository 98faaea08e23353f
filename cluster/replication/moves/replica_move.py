"""Moves one replica from one log directory to another: its future log follows its log until it can replace it.

Rules of this file:

- The log stays in use, as leader or follower, while it is copied, and the copy follows every change. A truncation of
  the log, now or while the broker was down, is detected by leader epochs, as between brokers. If the log start moves
  forward, so does that of the copy.
- The check that both end at the same offset, and the replacement, have no `await` between them, so that no append can
  come in between.
- Only what a throttle allows is copied, and what lies in older segments is read in a thread.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from cluster.replication.follower.fetch_state import truncation_offset
from cluster.replication.partition.partition import Partition
from cluster.replication.throttle import Throttle
from storage.errors import UnexpectedAppendOffsetError
from storage.leader_epochs import EpochEnd
from storage.log_read import read_range
from wire.types import NO_LEADER_EPOCH, Offset

if TYPE_CHECKING:
    from storage.log import Log
    from storage.store import LogStore
    from timing.clock import Clock
    from wire.file_range import FileRange

logger = logging.getLogger(__name__)

NOTHING_TO_READ_S: Final = 0.5
"""How long to wait if a truncated log ends behind its last batch: only its next append can be copied."""


class ReplicaMove:
    """Fills the future log of one partition.

    Args:
        partition: Whose log moves.
        future: The future log.
        store: The logs.
        clock: Wall time, for retention in the copy.
        offload: Runs slow file operations off the loop.
        throttle: Limits all moves together.
        chunk_bytes: How many bytes are copied at a time.
        on_promoted: Called with the partition just after its log was replaced.

    Attributes:
        partition: As given.
        future: As given.
        scope: Cancels it.
    """

    def __init__(
        self,
        partition: Partition,
        future: "Log",
        store: "LogStore",
        clock: "Clock",
        offload: Callable[[Callable[[], object]], Awaitable[object]],
        throttle: Throttle,
        chunk_bytes: int,
        on_promoted: Callable[[Partition], None],
    ) -> None:
        self.partition = partition
        self.future = future
        self.scope = trio.CancelScope()
        self._store = store
        self._clock = clock
        self._offload = offload
        self._throttle = throttle
        self._chunk_bytes = chunk_bytes
        self._on_promoted = on_promoted
        self._followed: tuple[Log, int] | None = None

    def stop(self) -> None:
        """Stop copying at once; the future log is left as it is."""
        self.scope.cancel()

    async def run(self) -> bool:
        """Copy until the future log has replaced the log.

        If stopped or cancelled, it leaves a future log of whole batches, and the move can be resumed.

        Returns:
            Whether the log was replaced; False if the move was stopped, or the partition is no longer here.

        Raises:
            LogError: a disk failed, or the log is damaged.
        """
        future = self.future
        with self.scope:
            while (current := self.partition.log) is not None:
                self._align(current)
                if future.flusher.unsettled:
                    await self._offload(future.settle)
                    continue
                if future.log_end_offset == current.log_end_offset:
                    await self._take_place()
                    return True
                await self._copy_some(current)
        return False

    async def _take_place(self) -> None:
        partition = self.partition
        old = self._store.moves.promote(partition.topic_partition)
        partition.replace_log(self.future)
        self._on_promoted(partition)
        logger.info(
            "%s has moved from %s to %s",
            partition.topic_partition,
            old.log_directory.path,
            self.future.log_directory.path,
        )
        with trio.CancelScope(shield=True):
            await self._offload(lambda: self._store.moves.finish_promotion(old))

    # Following

    def _align(self, current: "Log") -> None:
        """Cut the copy where the log was cut, at either end."""
        future = self.future
        if self._followed != (current, current.truncations):
            self._truncate(current)
            self._followed = (current, current.truncations)
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        future.set_high_watermark(current.high_watermark)
        if future.advance_log_start(min(current.log_start_offset, future.high_watermark)):
            future.delete_old_segments(self._clock.wall_ms())

    def _truncate(self, current: "Log") -> None:
        """Truncate the copy to the last offset that both have in common, epoch by epoch."""
        future = self.future
        while (end := common_end(current, future)) < future.log_end_offset:
            logger.info("truncating the copy of %s to %d", future.topic_partition, end)
            future.truncate_suffix(end)

    async def _copy_some(self, current: "Log") -> None:
        future = self.future
        size = self._chunk_bytes
        if self._throttle.is_on:
            size = min(size, self._throttle.room())
            if size <= 0:
                await trio.sleep(self._throttle.wait_s())
                return
        read = current.read(
            future.log_end_offset, size, upper_bound=current.log_end_offset, min_one_batch=True
        )
        found = read.file_range
        if found is None:
            await trio.sleep(NOTHING_TO_READ_S)
            return
        if found.hot:
            data: object = _read(current, found)
        else:
            truncations = current.truncations
            data = await self._offload(lambda: _read(current, found))
            # Wait for the end of the thread, whatever has happened meanwhile.
            if self.scope.cancel_called or self.partition.log is not current:
                return
            if current.truncations != truncations:
                return
        if isinstance(data, bytes):
            self._append(data)
            self._throttle.record(len(data))
        await trio.lowlevel.checkpoint()

    def _append(self, data: bytes) -> None:
        future = self.future
        try:
            future.append_as_follower(data)
        except UnexpectedAppendOffsetError as error:
            # The log starts in the middle of a batch, after a DeleteRecords, and the copy is empty.
            end = future.log_end_offset
            if end != future.log_start_offset or not error.first_offset < end <= error.last_offset:
                raise
            future.truncate_fully_and_start_at(Offset(error.first_offset), end)
            future.append_as_follower(data)


def _read(log: "Log", found: "FileRange") -> bytes:
    """Read a range of a log, in any thread.

    Raises:
        StorageError: the disk failed.
    """
    try:
        return read_range(found)
    except OSError as error:
        raise log.log_directory.fail(error, f"copying {log.topic_partition}") from error


def common_end(current: "Log", future: "Log") -> Offset:
    """Return an upper bound of the offset to which a copy must be truncated to match its log again.

    Leader epochs show it. If there are none, as only with old formats, the replicated part is never truncated, and the
    rest is copied anew.
    """
    newest = future.leader_epochs.latest
    if newest == NO_LEADER_EPOCH or current.leader_epochs.latest == NO_LEADER_EPOCH:
        return min(future.log_end_offset, current.high_watermark)
    end = current.leader_epochs.end_offset_for(newest, current.log_end_offset)
    if end is None:  # an epoch that the log has lost
        end = EpochEnd(current.leader_epochs.latest, current.log_end_offset)
    return truncation_offset(future, end.epoch, end.end_offset, future.log_end_offset)
