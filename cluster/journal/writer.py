"""Writes the journal of one broker.

Noting an event costs a tuple: encoding and writing is done by a task of its own, in slices, so that a controller that
takes thousands of decisions is not held up. A crash of the process loses what was noted in the same turn of the loop.
The file is rotated at a size and at each start, and the rotated ones are compressed; the oldest go when all of them
together hold too much.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import trio

from cluster.journal.frames import MAGIC, encode_frame
from wire.types import BrokerId, WallMs

JOURNAL_FILE: Final = "state-changes.journal"
ROTATED_PATTERN: Final = "state-changes-*.journal*"
ROTATE_AT_BYTES: Final = 8 << 20
KEEP_BYTES: Final = 64 << 20
"""Of the rotated files together."""
PENDING_MAX: Final = 200_000
_SLICE: Final = 500


class StateJournal:
    """The journal of one broker; `run` writes what `note` was given.

    Args:
        directory: Where its files are.
        broker_id: Stands in each event.
        wall_ms: The time that stands in each event.
        offload: Runs the compression of a rotated file beside the loop.
    """

    def __init__(
        self,
        directory: Path,
        broker_id: BrokerId,
        wall_ms: Callable[[], WallMs],
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._directory = directory
        self._broker_id = broker_id
        self._wall_ms = wall_ms
        self._offload = offload
        self._pending: deque[tuple[WallMs, str, Mapping[str, Any]]] = deque()
        self._dropped = 0
        self._number = 0
        self._size = 0
        self._noted = trio.Event()

    @property
    def path(self) -> Path:
        """The file that is written to."""
        return self._directory / JOURNAL_FILE

    def note(self, kind: str, what: Mapping[str, Any]) -> None:
        """Note an event; never waits or fails.

        Args:
            kind: What happened.
            what: What it happened to; not changed afterwards, made of what msgpack knows.
        """
        if len(self._pending) >= PENDING_MAX:
            self._pending.popleft()
            self._dropped += 1
        self._pending.append((self._wall_ms(), kind, what))
        self._noted.set()

    async def run(self) -> NoReturn:
        """Write until cancelled, then what is left.

        Raises:
            OSError: the disk fails.
        """
        self._set_aside()
        descriptor = self._open()
        try:
            await self._compress()
            while True:
                await self._noted.wait()
                self._noted = trio.Event()
                while self._pending:
                    self._write(descriptor, self._next_slice())
                    await trio.lowlevel.checkpoint()
                if self._size >= ROTATE_AT_BYTES:
                    os.close(descriptor)
                    self._set_aside()
                    descriptor = self._open()
                    await self._compress()
        finally:
            while self._pending:
                self._write(descriptor, self._next_slice())
            os.close(descriptor)

    def _open(self) -> int:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._size = 0
        self._write(descriptor, MAGIC)
        return descriptor

    def _write(self, descriptor: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        self._size += len(data)

    def _next_slice(self) -> bytes:
        frames = bytearray()
        if self._dropped:
            self._pending.appendleft((self._wall_ms(), "dropped", {"count": self._dropped}))
            self._dropped = 0
        for _ in range(min(_SLICE, len(self._pending))):
            at, kind, what = self._pending.popleft()
            self._number += 1
            frames += encode_frame(
                {"at": at, "broker": self._broker_id, "n": self._number, "kind": kind, **what}
            )
        return bytes(frames)

    def _set_aside(self) -> None:
        """Rename the file, so that it is compressed and a new one can begin."""
        try:
            if self.path.stat().st_size > len(MAGIC):
                self.path.rename(self._directory / f"state-changes-{self._wall_ms():015d}.journal")
        except FileNotFoundError:
            pass

    async def _compress(self) -> None:
        await self._offload(partial(compress_rotated, self._directory))


def compress_rotated(directory: Path, keep_bytes: int = KEEP_BYTES) -> None:
    """Compress the rotated journals of a directory, and delete the oldest beyond a size."""
    import zstandard

    for path in sorted(directory.glob("state-changes-*.journal")):
        scratch = path.with_suffix(".tmp")
        scratch.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        scratch.rename(path.with_suffix(".journal.zst"))
        path.unlink()
    total = 0
    for path in sorted(directory.glob("state-changes-*.journal.zst"), reverse=True):
        total += path.stat().st_size
        if total > keep_bytes:
            path.unlink()
