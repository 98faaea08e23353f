"""Snapshots on disk: read when a partition is loaded from scratch, written when the log has grown enough.

Both coordinators keep them: their state of a partition is a `Stored`, and a `SnapshotKind` says how it is written.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

import msgpack
import trio

from cluster.coordinator.snapshot_bytes import PIECE, SnapshotError, SnapshotPlace, open_snapshot, seal
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset, WallMs

if TYPE_CHECKING:
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)

CHANGES_MIN: Final = 5_000
"""The least number of new records for a snapshot: fewer are read from the log as fast as from a snapshot."""

_RETENTION_MIN_MS: Final = 60_000
"""If tombstones stay in the log for less than this, a snapshot is too old before it is useful."""
_AT_ONCE: Final = 256 * 1024
"""Bytes written between two turns of the loop."""
FOLLOWER_REST_S: Final = 0.005
"""A follower's pause for other tasks between slices: nobody waits for it."""

Offload = Callable[[Callable[[], object]], Awaitable[object]]


class Stored(Protocol):
    """What is known of a partition.

    Attributes:
        next_offset: Everything before it is known.
        epoch: The leader epoch of the record before it.
        changes: Records taken in since the last snapshot.
        snapshot_at: When the last snapshot was begun; 0 where there is none.
    """

    next_offset: Offset
    epoch: LeaderEpoch
    changes: int
    snapshot_at: WallMs

    @property
    def known_through(self) -> tuple[Offset, LeaderEpoch]:
        """The offset from which on nothing is known, and the leader epoch of the record before it."""
        ...

    @property
    def knows_nothing(self) -> bool:
        """Whether nothing has been read yet."""
        ...

    def is_good_for(self, log: "Log") -> bool:
        """Whether a log still begins with what is known of it."""
        ...

    def read_to(self, next_offset: Offset, epoch: LeaderEpoch, records: int = 0) -> None:
        """Note that the log has been read up to an offset."""
        ...

    def apply(self, data: bytes) -> Iterator[int]:
        """Apply whole batches, encoded as in the log; yield how many records each had."""
        ...


S = TypeVar("S", bound=Stored)


@dataclass(frozen=True, slots=True)
class SnapshotKind(Generic[S]):
    """How the snapshots of one coordinator are written and read.

    Attributes:
        file_name: The name of the file in the partition's directory.
        start: Makes the empty state for a place, before the pieces are read.
        encode: Writes the state piece by piece; it may change between two pieces.
        read: Reads the pieces; yields how many entries each had, and raises `SnapshotError`.
        count: Returns how many entries there are.
    """

    file_name: str
    start: Callable[[SnapshotPlace], S]
    encode: Callable[[S], Iterator[bytes]]
    read: Callable[[S, msgpack.Unpacker], Iterator[int]]
    count: Callable[[S], int]


class Candidate(NamedTuple, Generic[S]):
    """A partition that may need a snapshot: its log, its state, and whether that is still kept up to date."""

    log: "Log"
    stored: S
    is_ours: Callable[[], bool]


class Snapshots(Generic[S]):
    """The snapshots of one coordinator.

    Args:
        kind: How they are written.
        clock: Wall time, for the age of snapshots.
        offload: Runs slow file operations outside the loop.
    """

    def __init__(
        self, kind: SnapshotKind[S], clock: "Clock", offload: Offload = trio.to_thread.run_sync
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._offload = offload

    async def begin(self, log: "Log") -> S:
        """Return the initial state for reading a log: its snapshot, if that is valid, else an empty one.

        It reads in pieces; cancelled, it leaves nothing behind.
        """
        fresh = self._kind.start(nothing_of(log))
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
            # Compaction may have removed the tombstones of what was deleted since.
            logger.info("the snapshot of %s is too old", log.topic_partition)
            return fresh
        stored = self._kind.start(place)
        try:
            count = 0
            for some in self._kind.read(stored, pieces):
                count += some
                if count >= PIECE:
                    count = 0
                    await trio.lowlevel.checkpoint()
        except SnapshotError as error:
            logger.warning("the snapshot of %s is not used: %s", log.topic_partition, error)
            return fresh
        return stored

    async def write_due(
        self,
        candidates: "Iterable[Candidate[S]]",
        least: int = CHANGES_MIN,
        rest_s: float = FOLLOWER_REST_S,
    ) -> None:
        """Write a snapshot of every partition that has changed enough since its last one.

        Args:
            candidates: The partitions.
            least: How many records count as enough.
            rest_s: The pause for other tasks between pieces, in seconds.
        """
        for log, stored, is_ours in candidates:
            if not self.is_due(stored, log, least) or not stored.is_good_for(log):
                continue
            try:
                await self.write(stored, log, is_ours, rest_s)
            except OSError as error:
                logger.warning("no snapshot of %s is written: %s", log.topic_partition, error)

    async def write(self, stored: S, log: "Log", is_ours: Callable[[], bool], rest_s: float) -> bool:
        """Write a snapshot, in pieces; return False if the partition was unloaded meanwhile.

        Args:
            stored: The state, which may go on changing while it is written.
            log: The log that it was read from.
            is_ours: Whether ``stored`` is still kept up to date by the caller.
            rest_s: The pause for other tasks between pieces, in seconds.

        Raises:
            OSError: the disk failed, or the directory is gone.
        """
        next_offset, epoch, changes = stored.next_offset, stored.epoch, stored.changes
        written_at = self._clock.wall_ms()
        pieces = []
        size = 0
        for piece in self._kind.encode(stored):
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
            *stored.known_through,
            written_at,
        )
        path = str(log.directory / self._kind.file_name)
        await self._offload(lambda: log.log_directory.disk.replace(path, seal(place, pieces), sync=False))
        stored.changes -= changes
        stored.snapshot_at = written_at
        return True

    async def _read(self, log: "Log") -> bytes:
        found: list[bytes] = []
        path = str(log.directory / self._kind.file_name)
        await self._offload(lambda: found.append(log.log_directory.disk.read(path)))
        return found[0]

    def is_due(self, stored: S, log: "Log", least: int = CHANGES_MIN) -> bool:
        """Whether reading the records since the last snapshot would take too long.

        A snapshot of many entries is written less often: when there is one change for every four of them. One that will
        soon be too old is replaced in any case.
        """
        old_ms = log.config.delete_retention_ms
        if old_ms < _RETENTION_MIN_MS:
            return False
        if stored.snapshot_at and (self._clock.wall_ms() - stored.snapshot_at) * 2 >= old_ms:
            return True
        if stored.changes < least:
            return False
        return stored.changes * 4 >= self._kind.count(stored)


def nothing_of(log: "Log") -> SnapshotPlace:
    """Return the place of an empty snapshot at the start of a log."""
    return SnapshotPlace(
        log.topic_id,
        log.topic_partition.partition,
        log.log_start_offset,
        NO_LEADER_EPOCH,
        NO_OFFSET,
        NO_LEADER_EPOCH,
        WallMs(0),
    )


def is_of(place: SnapshotPlace, log: "Log") -> bool:
    """Whether a snapshot was made from this log, and the log still has every record that it includes."""
    epoch_at = log.leader_epochs.epoch_for_offset
    return (
        place.topic_id == log.topic_id
        and place.partition == log.topic_partition.partition
        and log.log_start_offset < place.next_offset <= place.through <= log.log_end_offset
        and epoch_at(Offset(place.next_offset - 1)) == place.epoch
        and epoch_at(Offset(place.through - 1)) == place.through_epoch
    )
