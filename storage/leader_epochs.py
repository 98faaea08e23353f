"""The start offset of each leader epoch: what a follower needs to find where its log diverged from the leader's
(KIP-101, KIP-279).

Entries rise strictly in epoch and in start offset. They are kept in `leader-epoch-checkpoint`:

    0          version
    2          number of entries
    0 0        epoch, start offset
    4 1200

Worked example, with entries (0, 0), (4, 1200) and a log that ends at 1500:

    end_offset_for(4)  (4, 1500)   the newest epoch ends where the log does
    end_offset_for(2)  (0, 1200)   the largest epoch not above 2 is 0, and it ended where 4 began
    end_offset_for(5)  None        we know nothing of it
"""

import logging
import os
import threading
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final, NamedTuple

from storage.checkpoints import decode_lines, encode_lines
from storage.disk import Disk
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset

_log: Final = logging.getLogger(__name__)


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The offset after the last of a leader epoch."""

    epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochCache:
    """The leader epochs of one log, and their file.

    New epochs, and epochs that go with the log's end, wait in memory for `write` or `sync`: a broker that becomes the
    leader of a thousand partitions does not write as many files on its loop. The log calls `sync` before its recovery
    point passes them. What a crash loses until then, recovery finds again in the batches past the recovery point. Other
    changes are written at once, and not synced.
    """

    __slots__ = ("_changing", "_disk", "_epochs", "_path", "_starts", "_unsynced", "_unwritten", "_writing")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        self._unsynced = False
        self._unwritten = False
        self._changing = threading.Lock()  # entries, which a thread may be writing down
        self._writing = threading.Lock()  # the file

    def load(self) -> bool:
        """Read the file. False where it is missing or makes no sense; the cache is empty then.

        Raises:
            OSError: the disk failed.
        """
        try:
            data = self._disk.read(self._path)
        except FileNotFoundError:
            return False
        try:
            entries = [EpochStart(LeaderEpoch(int(e)), Offset(int(s))) for e, s in decode_lines(data)]
        except ValueError as error:
            _log.warning("leader epochs in %s are ignored: %s", self._path, error)
            return False
        for one, next_one in pairwise(entries):
            if one.epoch >= next_one.epoch or one.start_offset >= next_one.start_offset:
                _log.warning(
                    "leader epochs in %s are ignored: %s does not follow %s", self._path, next_one, one
                )
                return False
        if entries and (entries[0].epoch < 0 or entries[0].start_offset < 0):
            return False
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]
        return bool(data)

    @property
    def latest(self) -> LeaderEpoch:
        """The newest epoch, -1 where none is known."""
        return self._epochs[-1] if self._epochs else NO_LEADER_EPOCH

    @property
    def latest_entry(self) -> EpochStart | None:
        """The newest epoch and where it began."""
        return EpochStart(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def earliest_entry(self) -> EpochStart | None:
        """The oldest epoch that the log still has records of."""
        return EpochStart(self._epochs[0], self._starts[0]) if self._epochs else None

    def entries(self) -> list[EpochStart]:
        """Return all of them, oldest first."""
        return list(map(EpochStart, self._epochs, self._starts))

    def __bool__(self) -> bool:
        return bool(self._epochs)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that an epoch begins at an offset; entries that contradict it go.

        Assigning the newest epoch again, at its start or later, changes nothing. The file waits for `write`.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"no leader epoch: {epoch} from {start_offset}")
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return
        keep = min(bisect_left(epochs, epoch), bisect_left(starts, start_offset))
        with self._changing:
            del epochs[keep:], starts[keep:]
            epochs.append(epoch)
            starts.append(start_offset)
            self._unwritten = True

    def write(self) -> None:
        """Write the file where it lacks a change. May run in a thread beside the other methods.

        Raises:
            OSError: the file could not be written.
        """
        if self._unwritten:
            self._write()

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd | None:
        """Return the largest known epoch not above `epoch`, and where it ended.

        Args:
            epoch: the other side's epoch.
            log_end_offset: where our log ends, which is where the newest epoch does.

        Returns:
            None where `epoch` is above all that we know, or -1. Below the first that we know, `epoch` itself
            ends where that begins.
        """
        if epoch < 0:
            return None
        slot = bisect_right(self._epochs, epoch) - 1
        last = len(self._epochs) - 1
        if slot == last:
            if last >= 0 and self._epochs[last] == epoch:
                return EpochEnd(epoch, log_end_offset)
            return None
        return EpochEnd(self._epochs[slot] if slot >= 0 else epoch, self._starts[slot + 1])

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that an offset was written in, -1 where that is not known."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_LEADER_EPOCH

    def start_of(self, epoch: LeaderEpoch) -> Offset | None:
        """Return where an epoch began, None where it is not known."""
        slot = bisect_left(self._epochs, epoch)
        return self._starts[slot] if slot < len(self._epochs) and self._epochs[slot] == epoch else None

    def previous_epoch(self, epoch: LeaderEpoch) -> LeaderEpoch:
        """Return the known epoch before `epoch`, -1 where there is none."""
        slot = bisect_left(self._epochs, epoch) - 1
        return self._epochs[slot] if slot >= 0 else NO_LEADER_EPOCH

    def truncate_suffix(self, end_offset: Offset) -> None:
        """Forget the epochs that began at or after `end_offset`, where the log now ends. The file waits for `write`."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            with self._changing:
                del self._epochs[keep:], self._starts[keep:]
                self._unwritten = True

    def truncate_prefix(self, start_offset: Offset) -> None:
        """Forget the epochs that ended before `start_offset`; the one it falls into now begins there.

        Raises:
            OSError: the file could not be written.
        """
        slot = bisect_right(self._starts, start_offset) - 1
        if slot > 0 or (slot == 0 and self._starts[0] != start_offset):
            with self._changing:
                del self._epochs[:slot], self._starts[:slot]
                self._starts[0] = start_offset
            self._write()

    def take_over(self, other: "LeaderEpochCache") -> None:
        """Adopt the epochs of another cache whose log has the same records.

        Raises:
            OSError: the file could not be written.
        """
        if (self._epochs, self._starts) != (other._epochs, other._starts):
            with self._changing:
                self._epochs, self._starts = list(other._epochs), list(other._starts)
            self._write()

    def clear(self) -> None:
        """Forget everything.

        Raises:
            OSError: the file could not be written.
        """
        if self._epochs:
            with self._changing:
                self._epochs.clear()
                self._starts.clear()
            self._write()

    def sync(self) -> None:
        """Make all that is known survive power loss. May run in a thread beside the other methods.

        Raises:
            OSError: the disk failed.
        """
        self.write()
        if self._unsynced:
            # Cleared first: a change that comes meanwhile sets it again, and what is synced here is never
            # older than this moment.
            self._unsynced = False
            file = self._disk.open(self._path)
            try:
                file.sync()
            finally:
                file.close()
            self._disk.sync_directory(os.path.dirname(self._path))

    def moved_to(self, path: str) -> None:
        """Note that the log's directory was renamed."""
        self._path = path

    def _write(self) -> None:
        with self._writing:
            with self._changing:
                self._unwritten = False
                data = self._encode()
            try:
                self._disk.replace(self._path, data, sync=False)
            except BaseException:
                self._unwritten = True
                raise
            self._unsynced = True

    def _encode(self) -> bytes:
        return encode_lines(
            [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        )
