"""Cuts a stream of bytes into whole frames, without I/O.

A frame, after <https://kafka.apache.org/protocol.html#protocol_common>:

    +-------------------+----------------+
    | length  int32, BE | payload        |
    +-------------------+----------------+
    0                   4         4 + length

The caller receives into `space`, says how much came with `received`, takes frames with `next_frame` until
there is none, and ends with `settle`. Several small frames come out of one receive. A large frame is received
up to its own end and no further, so that nothing behind it has to be moved.
"""

from struct import Struct
from typing import Final

from cluster.network.buffer_pool import BufferPool
from wire.errors import RemoteProtocolError

LENGTH: Final = Struct(">i")
LENGTH_SIZE: Final = 4
LARGE_FRAME: Final = 16 * 1024
"""From this many bytes a partly received frame is completed by receives of its own."""
FIRST_GROWTH: Final = 1024 * 1024
"""How much is allocated when a large frame is announced; beyond that the buffer grows as bytes arrive."""


class FrameReader:
    """Cuts one connection's input into frames.

    Args:
        pool: Where receive buffers come from.
        frame_size_max: The largest payload taken, in bytes.
    """

    __slots__ = ("_buffer", "_end", "_need", "_pool", "_start", "frame_size_max")

    def __init__(self, pool: BufferPool, frame_size_max: int) -> None:
        self._pool = pool
        self.frame_size_max = frame_size_max
        self._buffer: memoryview | None = None
        self._start = 0
        self._end = 0
        self._need = 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun that has not been taken yet."""
        return self._end > self._start

    @property
    def held_bytes(self) -> int:
        """The size of the buffer that is held between receives."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the frame that has begun are missing; 0 if none has begun, or its length is not known."""
        return max(0, self._need - (self._end - self._start))

    def space(self) -> memoryview:
        """Return the memory to receive the next bytes into; never empty."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = self._pool.borrow()
            return buffer
        if self._need >= LARGE_FRAME:
            return buffer[self._end : self._start + self._need]
        return buffer[self._end :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were written to the front of `space`."""
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame's payload, or None if not all of it has arrived.

        The view is valid until `settle`.

        Raises:
            RemoteProtocolError: the length is negative or larger than allowed.
        """
        start = self._start
        available = self._end - start - LENGTH_SIZE
        buffer = self._buffer
        if buffer is None or available < 0:
            self._need = 0
            return None
        size: int = LENGTH.unpack_from(buffer, start)[0]
        if size > available or size < 0:
            if not 0 <= size <= self.frame_size_max:
                raise RemoteProtocolError(
                    f"a frame of {size} bytes, where 0 to {self.frame_size_max} are allowed"
                )
            self._need = LENGTH_SIZE + size
            return None
        if size > self.frame_size_max:
            raise RemoteProtocolError(f"a frame of {size} bytes, where {self.frame_size_max} are allowed")
        start += LENGTH_SIZE
        self._start = end = start + size
        return buffer[start:end]

    def settle(self) -> None:
        """Make room for the next receive; frames returned so far are no longer valid."""
        buffer = self._buffer
        if buffer is None:
            return
        left = self._end - self._start
        if left == 0:
            self._pool.give_back(buffer)
            self._buffer = None
            self._start = self._end = self._need = 0
            return
        capacity = len(buffer)
        need = self._need
        if need > capacity and (left == capacity or capacity < FIRST_GROWTH):
            grown = self._pool.borrow(min(need, max(FIRST_GROWTH, 2 * capacity)))
            grown[:left] = buffer[self._start : self._end]
            self._pool.give_back(buffer)
            self._buffer = grown
        elif self._start and (need < LARGE_FRAME or self._start + need > capacity):
            # Overlapping ranges: assignment between views of one object moves as memmove does.
            buffer[:left] = buffer[self._start : self._end]
        else:
            return
        self._start, self._end = 0, left

    def abandon(self) -> None:
        """Return the buffer to the pool: the connection is gone."""
        if self._buffer is not None:
            self._pool.give_back(self._buffer)
            self._buffer = None
        self._start = self._end = self._need = 0
