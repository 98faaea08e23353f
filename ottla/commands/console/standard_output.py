"""The standard output, written beside the loop: a reader that pauses holds up no heartbeats."""

import os
from collections.abc import Callable
from typing import Final

import trio

_STDOUT: Final = 1


class OutputClosed(Exception):
    """Nobody reads the standard output any more."""


class StandardOutput:
    """Writes bytes.

    Args:
        write: Writes some of the bytes and returns how many; it may block, and runs in a thread.
    """

    def __init__(self, write: Callable[[memoryview], int] | None = None) -> None:
        self._write = write or _write_stdout

    async def write(self, data: bytes | bytearray) -> None:
        """Write everything. Cancelled, what was not written yet may be written later, in part.

        Raises:
            OutputClosed: The other end of the pipe is closed.
        """
        if not data:
            return
        try:
            await trio.to_thread.run_sync(self._write_all, bytes(data), abandon_on_cancel=True)
        except BrokenPipeError:
            raise OutputClosed from None

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._write(left) :]


def _write_stdout(data: memoryview) -> int:
    return os.write(_STDOUT, data)
