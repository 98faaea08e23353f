"""The standard output, written beside the loop: a reader that pauses holds up no heartbeats."""

import os
from collections.abc import Callable
from typing import Final

import trio

_STDOUT: Final = 1
_GRACE_S: Final = 0.1
"""How long a write that was cancelled may take to end."""


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
        """Write everything.

        Cancelled when all is written, or is within a moment, it returns, so that the caller can count what was written;
        the next checkpoint raises. Else what was not written yet may be written later, in part.

        Raises:
            OutputClosed: The other end of the pipe is closed.
        """
        if not data:
            return
        token, written = trio.lowlevel.current_trio_token(), trio.Event()

        def work() -> None:
            self._write_all(bytes(data))
            token.run_sync_soon(written.set)

        try:
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except BrokenPipeError:
            raise OutputClosed from None
        except trio.Cancelled:
            with trio.move_on_after(_GRACE_S, shield=True):
                await written.wait()
            if not written.is_set():
                raise

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._write(left) :]


def _write_stdout(data: memoryview) -> int:
    return os.write(_STDOUT, data)
