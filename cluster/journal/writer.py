"""Writes the journal of one broker.

Noting an event only queues a tuple: a task of its own encodes and writes, in slices, so that a controller that takes
thousands of decisions is not held up. A crash of the process loses what was noted in the same turn of the loop. The
file is rotated at a size and at each start, and the rotated ones are compressed; the oldest are deleted when all of
them together exceed a size.

The journal is in the first log directory that accepts it. A full or failed disk does not end the broker: the journal
goes on in the next directory and, if none accepts it, all are tried again after `RETRY_S`.
"""

import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

import trio

from cluster.journal.frames import MAGIC, encode_frame
from wire.types import BrokerId, WallMs

logger = logging.getLogger(__name__)

JOURNAL_FILE: Final = "state-changes.journal"
ROTATED_PATTERN: Final = "state-changes-*.journal*"
ROTATE_AT_BYTES: Final = 8 << 20
KEEP_BYTES: Final = 64 << 20
"""The limit for all rotated files together."""
PENDING_MAX: Final = 200_000
RETRY_S: Final = 30.0
"""How long to wait before failed directories are tried again, when no directory accepts the journal."""
_SLICE: Final = 500


class StateJournal:
    """The journal of one broker; `run` writes what `note` was given.

    Args:
        directories: Return the log directories that are online, in order of preference.
        broker_id: Written into each event.
        wall_ms: The wall clock, for the time written into each event.
        offload: Runs the compression of a rotated file beside the loop.
    """

    def __init__(
        self,
        directories: Callable[[], Sequence[Path]],
        broker_id: BrokerId,
        wall_ms: Callable[[], WallMs],
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._directories = directories
        self._failed: set[Path] = set()
        self._broker_id = broker_id
        self._wall_ms = wall_ms
        self._offload = offload
        self._pending: deque[tuple[WallMs, str, Mapping[str, Any]]] = deque()
        self._dropped = 0
        self._number = 0
        self._size = 0
        self._noted = trio.Event()

    def note(self, kind: str, what: Mapping[str, Any]) -> None:
        """Note an event; never waits or fails.

        Args:
            kind: What happened.
            what: Details of the event, of types that msgpack knows; the caller must not change them afterwards.
        """
        if len(self._pending) >= PENDING_MAX:
            self._pending.popleft()
            self._dropped += 1
        self._pending.append((self._wall_ms(), kind, what))
        self._noted.set()

    async def run(self) -> NoReturn:
        """Write until cancelled, then write what is left. A disk that fails is logged, and another one used."""
        while True:
            directory = next((each for each in self._directories() if each not in self._failed), None)
            if directory is None:
                await trio.sleep(RETRY_S)
                self._failed.clear()
                continue
            try:
                await self._write_in(directory)
            except OSError as error:
                logger.error("the state-change journal is not written in %s: %s", directory, error)
                self._failed.add(directory)

    async def _write_in(self, directory: Path) -> NoReturn:
        """Write files in one directory until cancelled, then write what is left.

        Raises:
            OSError: the disk failed; events that were not written completely are still pending.
        """
        self._set_aside(directory)
        descriptor = self._open(directory)
        try:
            await self._compress(directory)
            while True:
                await self._noted.wait()
                self._noted = trio.Event()
                while self._pending:
                    self._write_slice(descriptor)
                    await trio.lowlevel.checkpoint()
                if self._size >= ROTATE_AT_BYTES:
                    self._set_aside(directory)
                    successor = self._open(directory)
                    os.close(descriptor)
                    descriptor = successor
                    await self._compress(directory)
        except trio.Cancelled:
            while self._pending:
                self._write_slice(descriptor)
            raise
        finally:
            os.close(descriptor)
            self._noted.set()  # what is pending goes to the next file

    def _open(self, directory: Path) -> int:
        path = directory / JOURNAL_FILE
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._size = 0
        try:
            self._write(descriptor, MAGIC)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _write(self, descriptor: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        self._size += len(data)

    def _write_slice(self, descriptor: int) -> None:
        """Write the oldest pending events; they stay pending until all of their bytes are written."""
        if self._dropped:
            self._pending.appendleft((self._wall_ms(), "dropped", {"count": self._dropped}))
            self._dropped = 0
        count = min(_SLICE, len(self._pending))
        self._write(
            descriptor,
            b"".join(
                encode_frame(
                    {"at": at, "broker": self._broker_id, "n": self._number + number, "kind": kind, **what}
                )
                for number, (at, kind, what) in enumerate(islice(self._pending, count), 1)
            ),
        )
        self._number += count
        for _ in range(count):
            self._pending.popleft()

    def _set_aside(self, directory: Path) -> None:
        """Rename the file, so that it is compressed and a new one can begin."""
        path = directory / JOURNAL_FILE
        try:
            if path.stat().st_size > len(MAGIC):
                path.rename(directory / f"state-changes-{self._wall_ms():015d}.journal")
        except FileNotFoundError:
            pass

    async def _compress(self, directory: Path) -> None:
        try:
            await self._offload(partial(compress_rotated, directory))
        except OSError as error:
            # There may be no room for the compressed file beside its source; the journal itself can go on.
            logger.warning("rotated journals in %s are not compressed: %s", directory, error)


def compress_rotated(directory: Path, keep_bytes: int = KEEP_BYTES) -> None:
    """Compress the rotated journals of a directory, and delete the oldest beyond a size."""
    import zstandard

    for path in sorted(directory.glob("state-changes-*.journal")):
        scratch = path.with_suffix(".tmp")
        try:
            scratch.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        scratch.rename(path.with_suffix(".journal.zst"))
        path.unlink()
    total = 0
    for path in sorted(directory.glob("state-changes-*.journal.zst"), reverse=True):
        total += path.stat().st_size
        if total > keep_bytes:
            path.unlink()
