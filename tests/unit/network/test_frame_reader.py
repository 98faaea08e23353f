"""Frames read three ways: whole, byte by byte, and with trailing bytes; and false lengths."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.network.buffer_pool import BASE_SIZE, BufferPool
from cluster.network.frame_reader import FIRST_GROWTH, LARGE_FRAME, FrameReader
from wire.errors import RemoteProtocolError

MAX = 8 * 1024 * 1024


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Feed:
    """Delivers a stream as a socket does: never more than the space given."""

    def __init__(self, pool: BufferPool | None = None, size_max: int = MAX) -> None:
        self.pool = BufferPool() if pool is None else pool
        self.reader = FrameReader(self.pool, size_max)
        self.frames: list[bytes] = []
        self.receives = 0

    def feed(self, data: bytes, step: int = 1 << 30) -> None:
        position = 0
        while position < len(data):
            space = self.reader.space()
            assert len(space) > 0
            count = min(len(space), step, len(data) - position)
            space[:count] = data[position : position + count]
            position += count
            self.receives += 1
            self.reader.received(count)
            while (payload := self.reader.next_frame()) is not None:
                self.frames.append(bytes(payload))
            self.reader.settle()


@pytest.mark.parametrize("step", [1, 3, 4, 5, 7, 1000, 1 << 30])
def test_frames_come_out_however_the_bytes_came_in(step: int) -> None:
    payloads = [b"", b"a", b"bc" * 10, b"", b"d" * 300]
    feed = Feed()
    feed.feed(b"".join(map(frame, payloads)), step)
    assert feed.frames == payloads
    assert not feed.reader.is_inside_frame
    assert feed.reader.held_bytes == 0, "an idle connection holds no buffer"


@pytest.mark.parametrize(
    "size",
    [
        LARGE_FRAME - 5,
        LARGE_FRAME,
        BASE_SIZE - 4,
        BASE_SIZE - 3,
        BASE_SIZE,
        FIRST_GROWTH,
        5 * 1024 * 1024 + 1,
    ],
)
@pytest.mark.parametrize("before", [0, 1, BASE_SIZE - 10])
def test_large_frames_among_small_ones(size: int, before: int) -> None:
    payloads = [b"x" * before, bytes(range(256)) * (size // 256) + b"y" * (size % 256), b"after", b""]
    feed = Feed()
    feed.feed(b"".join(map(frame, payloads)))
    assert feed.frames == payloads


def test_a_large_frame_is_received_up_to_its_own_end() -> None:
    feed = Feed()
    feed.feed(frame(b"x" * 100_000)[: 4 + 20_000])
    assert len(feed.reader.space()) == 80_000


def test_an_announcement_alone_gets_little_memory() -> None:
    feed = Feed(size_max=2**31 - 1)
    feed.feed(struct.pack(">i", 2**31 - 1) + b"x")
    assert feed.reader.held_bytes <= FIRST_GROWTH
    feed.feed(b"y" * (FIRST_GROWTH - 5))
    assert feed.reader.held_bytes <= 2 * FIRST_GROWTH


@pytest.mark.parametrize("size", [-1, -(2**31), MAX + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_its_bytes_come(size: int) -> None:
    feed = Feed()
    feed.feed(frame(b"fine"))
    with pytest.raises(RemoteProtocolError, match=str(size)):
        feed.feed(struct.pack(">i", size))
    assert feed.frames == [b"fine"]


def test_a_frame_over_the_limit_is_refused_even_if_it_is_all_there() -> None:
    feed = Feed(size_max=10)
    with pytest.raises(RemoteProtocolError):
        feed.feed(frame(b"x" * 11))


def test_buffers_are_used_again() -> None:
    pool = BufferPool()
    first, second = Feed(pool), Feed(pool)
    first.feed(frame(b"a"))
    kept = pool.idle_bytes
    assert kept == BASE_SIZE
    second.feed(frame(b"b"))
    assert pool.idle_bytes == kept
    second.feed(b"\0")
    assert pool.idle_bytes == 0
    second.reader.abandon()
    assert pool.idle_bytes == kept


def test_the_pool_keeps_no_more_than_it_may() -> None:
    pool = BufferPool(idle_bytes_max=3 * BASE_SIZE)
    buffers = [pool.borrow() for _ in range(5)]
    for buffer in buffers:
        pool.give_back(buffer)
    assert pool.idle_bytes == 3 * BASE_SIZE
    assert len(pool.borrow(BASE_SIZE + 1)) == 2 * BASE_SIZE


@given(
    st.lists(st.binary(max_size=200), max_size=20),
    st.lists(st.integers(1, 500), min_size=1, max_size=20),
)
def test_any_cutting_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    feed = Feed()
    stream = b"".join(map(frame, payloads))
    position = 0
    number = 0
    while position < len(stream):
        step = cuts[number % len(cuts)]
        feed.feed(stream[position : position + step])
        position += step
        number += 1
    assert feed.frames == payloads


@given(st.binary(max_size=300))
def test_garbage_raises_the_one_error_or_waits_for_more(data: bytes) -> None:
    feed = Feed()
    try:
        feed.feed(data, 7)
    except RemoteProtocolError:
        pass
    assert feed.reader.held_bytes <= FIRST_GROWTH
