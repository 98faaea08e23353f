"""Receive buffers that are reused: fresh memory is expensive, a copy is not.

A connection holds a buffer only while a part of a frame is in it, so that ten thousand idle connections share
the few that the busy ones need.
"""

from typing import Final

BASE_SIZE: Final = 64 * 1024
"""Bytes of the smallest buffer: the most that one receive takes outside a large frame."""
IDLE_BYTES_MAX: Final = 32 * 1024 * 1024
"""How much unused memory the pool keeps."""


class BufferPool:
    """Buffers by size, each size a power of two, at least `BASE_SIZE`.

    A buffer is a writable view of a whole bytearray that is never resized.

    Args:
        idle_bytes_max: How many bytes to keep for later use; buffers given back beyond that are freed.
    """

    __slots__ = ("_free", "_idle_bytes", "_idle_bytes_max")

    def __init__(self, idle_bytes_max: int = IDLE_BYTES_MAX) -> None:
        self._free: dict[int, list[memoryview]] = {}
        self._idle_bytes = 0
        self._idle_bytes_max = idle_bytes_max

    @property
    def idle_bytes(self) -> int:
        """Bytes held for later use."""
        return self._idle_bytes

    def borrow(self, size: int = BASE_SIZE) -> memoryview:
        """Return a buffer of at least `size` bytes; what it contains is arbitrary."""
        capacity = BASE_SIZE if size <= BASE_SIZE else 1 << (size - 1).bit_length()
        free = self._free.get(capacity)
        if free:
            self._idle_bytes -= capacity
            return free.pop()
        return memoryview(bytearray(capacity))

    def give_back(self, buffer: memoryview) -> None:
        """Take a buffer back; neither it nor views of it may be used any more."""
        capacity = len(buffer)
        if self._idle_bytes + capacity > self._idle_bytes_max:
            return
        self._idle_bytes += capacity
        self._free.setdefault(capacity, []).append(buffer)
