"""The standard input, a few lines at a time, read beside the loop."""

import os
from collections.abc import Callable
from typing import Final, Self

import trio

_CHUNK: Final = 1 << 18
_STDIN: Final = 0


class StandardInput:
    """Lists of lines without their line feeds; the last line may lack one.

    Lines end at a line feed alone: a carriage return is a part of the line, so that every byte is kept.

    Args:
        prompt: Called before each read.
        read: Reads at most so many bytes; it may block, and runs in a thread.
    """

    def __init__(
        self, prompt: Callable[[], None] = lambda: None, read: Callable[[int], bytes] | None = None
    ) -> None:
        self._prompt = prompt
        self._read = read or _read_stdin
        self._rest: list[bytes] = []
        self._ended = False
        self._scope: trio.CancelScope | None = None

    def stop(self) -> None:
        """End as if the input did, without waiting for the read that is under way."""
        self._ended = True
        if self._scope is not None:
            self._scope.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        """Return the next lines. Cancelled, the read goes on in its thread and what it brings is lost."""
        while not self._ended:
            self._prompt()
            chunk = b""
            with trio.CancelScope() as self._scope:
                chunk = await trio.to_thread.run_sync(self._read, _CHUNK, abandon_on_cancel=True)
            if not chunk:
                self._ended = True
                break
            first, feed, others = chunk.partition(b"\n")
            self._rest.append(first)
            if not feed:
                continue
            lines = [b"".join(self._rest), *others.split(b"\n")]
            self._rest = [lines.pop()]
            return lines
        last = b"".join(self._rest)
        self._rest = []
        if last:
            return [last]
        raise StopAsyncIteration


def _read_stdin(size: int) -> bytes:
    return os.read(_STDIN, size)
