"""Snapshots on disk: read where a partition has to be begun anew, written when the log has grown enough since."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from cluster.coordinator.snapshot_bytes import (
    FILE_NAME,
    PIECE,
    SnapshotError,
    SnapshotPlace,
    encode_pieces,
    open_snapshot,
    read_pieces,
    seal,
)
from cluster.coordinator.stored_partition import StoredPartition
from wire.types import Offset

if TYPE_CHECKING:
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)

CHANGES_MIN: Final = 5_000
"""Records that are read from the log as fast as a snapshot would be: none is written for fewer."""

_RETENTION_MIN_MS: Final = 60_000
"""Where the ends of offsets stay in the log for less than this, a snapshot is too old before it is of use."""
_AT_ONCE: Final = 256 * 1024
"""Bytes written between two turns of the loop."""

Offload = Callable[[Callable[[], object]], Awaitable[object]]


class GroupSnapshots:
    """The snapshots of one broker.

    Args:
        clock: Wall time: a snapshot has its age.
        offload: Runs slow file operations beside the loop.
    """

    def __init__(self, clock: "Clock", offload: Offload = trio.to_thread.run_sync) -> None:
        self._clock = clock
        self._offload = offload

    async def begin(self, log: "Log") -> StoredPartition:
        """Return what is known of a log before reading it: its snapshot, if that is good, else nothing.

        Reads in pieces; cancelled, nothing is left behind.
        """
        fresh = StoredPartition(log.log_start_offset)
        try:
            place, pieces = open_snapshot(await self._read(log))
        except FileNotFoundError:
            return fresh
        except (SnapshotError, OSError) as error:
            logger.warning("the snapshot of %s is not used: %s", log.topic_partition, error)
            return fresh
        if not is_of(place, log):
            logger.info("the snapshot of %s is of another log, or of one that was cut", log.topic_partition)
            return fresh
        if self._clock.wall_ms() - place.written_at >= log.config.delete_retention_ms:
            # What was deleted since may be gone from the log without a trace.
            logger.info("the snapshot of %s is too old", log.topic_partition)
            return fresh
        stored = StoredPartition(
            place.next_offset,
            place.epoch,
            through=place.through,
            through_epoch=place.through_epoch,
            snapshot_at=place.written_at,
        )
        try:
            count = 0
            for some in read_pieces(stored, pieces):
                count += some
                if count >= PIECE:
                    count = 0
                    await trio.lowlevel.checkpoint()
        except SnapshotError as error:
            logger.warning("the snapshot of %s is not used: %s", log.topic_partition, error)
            return fresh
        return stored

    async def write(
        self, stored: StoredPartition, log: "Log", is_ours: Callable[[], bool], rest_s: float
    ) -> bool:
        """Write a snapshot, in pieces; False if the partition was unloaded meanwhile.

        Args:
            stored: What is known, which may change on while it is written.
            log: The log that it is known from.
            is_ours: Whether ``stored`` is still kept up to date by the caller.
            rest_s: What is left to others between pieces.

        Raises:
            OSError: the disk failed, or the directory is gone.
        """
        next_offset, epoch, changes = stored.next_offset, stored.epoch, stored.changes
        written_at = self._clock.wall_ms()
        pieces = []
        size = 0
        for piece in encode_pieces(stored):
            pieces.append(piece)
            size += len(piece)
            if size >= _AT_ONCE:
                size = 0
                await trio.sleep(rest_s)
                if not is_ours():
                    return False
        place = SnapshotPlace(
            log.topic_id,
            log.topic_partition.partition,
            next_offset,
            epoch,
            stored.through,
            stored.through_epoch,
            written_at,
        )
        path = str(log.directory / FILE_NAME)
        await self._offload(lambda: log.log_directory.disk.replace(path, seal(place, pieces), sync=False))
        stored.changes -= changes
        stored.snapshot_at = written_at
        return True

    async def _read(self, log: "Log") -> bytes:
        found: list[bytes] = []
        await self._offload(lambda: found.append(log.log_directory.disk.read(str(log.directory / FILE_NAME))))
        return found[0]

    def is_due(self, stored: StoredPartition, log: "Log", least: int = CHANGES_MIN) -> bool:
        """Whether reading what has come since the last snapshot takes longer than it should.

        A snapshot of many offsets is written less often: when there is a change for every fourth of them. One that
        will soon be too old is written anew whatever has come.
        """
        old_ms = log.config.delete_retention_ms
        if old_ms < _RETENTION_MIN_MS:
            return False
        if stored.snapshot_at and (self._clock.wall_ms() - stored.snapshot_at) * 2 >= old_ms:
            return True
        if stored.changes < least:
            return False
        return stored.changes * 4 >= sum(len(group.offsets) for group in stored.groups.values())


def is_of(place: SnapshotPlace, log: "Log") -> bool:
    """Whether a log has all that a snapshot knows of, and is the one that it was made of."""
    epoch_at = log.leader_epochs.epoch_for_offset
    return (
        place.topic_id == log.topic_id
        and place.partition == log.topic_partition.partition
        and log.log_start_offset < place.next_offset <= place.through <= log.log_end_offset
        and epoch_at(Offset(place.next_offset - 1)) == place.epoch
        and epoch_at(Offset(place.through - 1)) == place.through_epoch
    )
