"""Snapshots on disk: read where a partition has to be begun anew, written when the log has grown enough since.

Both coordinators keep them: what they know of a partition is a `Stored`, and a `SnapshotKind` says how it is written.
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
"""Records that are read from the log as fast as a snapshot would be: none is written for fewer."""

_RETENTION_MIN_MS: Final = 60_000
"""Where the ends of offsets stay in the log for less than this, a snapshot is too old before it is of use."""
_AT_ONCE: Final = 256 * 1024
"""Bytes written between two turns of the loop."""
FOLLOWER_REST_S: Final = 0.005
"""What a follower leaves to others between slices: nobody waits for it."""

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
        """Nothing from this offset on is known; the leader epoch of the record before it."""
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
        """Take in whole batches as they stand in the log; yields how many records each had."""
        ...


S = TypeVar("S", bound=Stored)


@dataclass(frozen=True, slots=True)
class SnapshotKind(Generic[S]):
    """How one coordinator's partitions are written.

    Attributes:
        file_name: The name of the file in the partition's directory.
        start: Makes what is known before a snapshot's pieces are taken in: nothing, as far as a place says.
        encode: Writes what is known piece by piece; between two pieces it may change.
        read: Takes pieces in; yields how many entries each had, and raises `SnapshotError`.
        count: Returns how many entries there are.
    """

    file_name: str
    start: Callable[[SnapshotPlace], S]
    encode: Callable[[S], Iterator[bytes]]
    read: Callable[[S, msgpack.Unpacker], Iterator[int]]
    count: Callable[[S], int]


class Candidate(NamedTuple, Generic[S]):
    """A partition of which a snapshot may be due: its log, what is known of it, and whether that is kept up to date."""

    log: "Log"
    stored: S
    is_ours: Callable[[], bool]


class Snapshots(Generic[S]):
    """The snapshots of one coordinator.

    Args:
        kind: How they are written.
        clock: Wall time: a snapshot has its age.
        offload: Runs slow file operations beside the loop.
    """

    def __init__(
        self, kind: SnapshotKind[S], clock: "Clock", offload: Offload = trio.to_thread.run_sync
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._offload = offload

    async def begin(self, log: "Log") -> S:
        """Return what is known of a log before reading it: its snapshot, if that is good, else nothing.

        Reads in pieces; cancelled, nothing is left behind.
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
            # What was deleted since may be gone from the log without a trace.
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
            rest_s: What is left to others between pieces, in seconds.
        """
        for log, stored, is_ours in candidates:
            if not self.is_due(stored, log, least) or not stored.is_good_for(log):
                continue
            try:
                await self.write(stored, log, is_ours, rest_s)
            except OSError as error:
                logger.warning("no snapshot of %s is written: %s", log.topic_partition, error)

    async def write(self, stored: S, log: "Log", is_ours: Callable[[], bool], rest_s: float) -> bool:
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
        """Whether reading what has come since the last snapshot takes longer than it should.

        A snapshot of many entries is written less often: when there is a change for every fourth of them. One that
        will soon be too old is written anew whatever has come.
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
    """Return the place of a snapshot that knows nothing of a log."""
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
    """Whether a log has all that a snapshot knows of, and is the one that it was made of."""
    epoch_at = log.leader_epochs.epoch_for_offset
    return (
        place.topic_id == log.topic_id
        and place.partition == log.topic_partition.partition
        and log.log_start_offset < place.next_offset <= place.through <= log.log_end_offset
        and epoch_at(Offset(place.next_offset - 1)) == place.epoch
        and epoch_at(Offset(place.through - 1)) == place.through_epoch
    )
