"""Sending through a socket that takes little at a time, from memory and from files."""

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from typing import IO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.network.buffer_pool import BufferPool
from cluster.network.response_slot import Answer, Part
from cluster.network.transmission import (
    COLD_READ,
    SMALL_RANGE,
    Progress,
    ShortFileError,
    Transmission,
    read_from_disk,
)
from wire.file_range import FileRange

SIZE = 3 * COLD_READ + 12345


@pytest.fixture(scope="module")
def file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as opened:
        opened.write(os.urandom(SIZE))
        opened.flush()
        yield opened


def content(file: IO[bytes], position: int = 0, size: int = SIZE) -> bytes:
    return os.pread(file.fileno(), size, position)


class Pair:
    """Both ends of a socket; `read` collects what was sent."""

    def __init__(self, buffer: int | None = None) -> None:
        self.near, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
        if buffer is not None:
            self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self.transmission = Transmission(self.near, BufferPool())
        self.received = bytearray()

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        self.near.close()
        self.far.close()

    def read(self, size: int = 1 << 20) -> int:
        try:
            data = self.far.recv(size)
        except BlockingIOError:
            return 0
        self.received += data
        return len(data)

    def read_all(self) -> None:
        while self.read():
            pass

    def send_all(self, answer: Answer) -> None:
        self.transmission.send(answer)
        self.pump_all()

    def pump_all(self) -> None:
        """Play the writer and the peer until everything has gone."""
        for _ in range(100_000):
            self.read_all()
            progress = self.transmission.pump()
            if progress is Progress.DONE:
                break
            if progress is Progress.COLD:
                self.transmission.cold_data(read_from_disk(self.transmission.next_cold()))
        else:
            raise AssertionError("it never ends")
        self.read_all()


def test_a_small_answer_goes_at_once() -> None:
    with Pair() as pair:
        assert pair.transmission.send(b"answer") is Progress.DONE
        pair.read()
        assert pair.received == b"answer"
        assert pair.transmission.sent_bytes == 6
        assert not pair.transmission


def test_what_the_socket_does_not_take_follows_in_order() -> None:
    with Pair(buffer=4096) as pair:
        big = os.urandom(1_000_000)
        assert pair.transmission.send(big) is Progress.BLOCKED
        assert pair.transmission.send([b"next", bytearray(b"last"), memoryview(b"!")]) is Progress.BLOCKED
        pair.pump_all()
        assert pair.received == big + b"nextlast!"


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("size", [0, 1, SMALL_RANGE, SMALL_RANGE + 1, SIZE])
def test_a_range_of_a_file_goes_out_as_it_lies_there(file: IO[bytes], size: int, hot: bool) -> None:
    with Pair(buffer=8192) as pair:
        pair.transmission.send([b"head", FileRange(file, 100, min(size, SIZE - 100), hot), b"tail"])
        pair.pump_all()
        assert pair.received == b"head" + content(file, 100, min(size, SIZE - 100)) + b"tail"


def test_small_parts_leave_in_one_packet(file: IO[bytes]) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        near.setblocking(False)
        parts: list[Part] = [b"head", FileRange(file, 0, 100), b"middle", FileRange(file, 500, 20)]
        assert Transmission(near, BufferPool()).send(parts) is Progress.DONE
        expected = b"head" + content(file, 0, 100) + b"middle" + content(file, 500, 20)
        assert far.recv(10_000) == expected


def test_a_range_that_is_not_in_memory_is_read_by_somebody_else(
    file: IO[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv
    in_memory = 0  # how many reads find their bytes in memory before one does not

    def preadv(fd: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        nonlocal in_memory
        assert flags == os.RWF_NOWAIT
        in_memory -= 1
        if in_memory < 0:
            in_memory = 1
            raise BlockingIOError
        return real(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    with Pair() as pair:
        pair.transmission.send([b"head", FileRange(file, 7, SIZE - 7, hot=False), b"tail"])
        pair.read_all()
        # While the disk is being read, later answers wait.
        assert pair.transmission.send(b"later") is Progress.COLD
        pair.pump_all()
        assert pair.received == b"head" + content(file, 7) + b"tail" + b"later"


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_such_reads_is_taken_as_memory(
    file: IO[bytes], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def preadv(*_: object) -> int:
        raise OSError(code, "no")

    monkeypatch.setattr(os, "preadv", preadv)
    with Pair(buffer=8192) as pair:
        pair.transmission.send(FileRange(file, 0, SIZE, hot=False))
        pair.pump_all()
        assert pair.received == content(file)


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("size", [200, SMALL_RANGE + 200])
def test_a_file_that_is_too_short_is_an_error(hot: bool, size: int) -> None:
    with tempfile.TemporaryFile() as short, Pair() as pair:
        short.write(b"x" * 100)
        short.flush()
        with pytest.raises(ShortFileError):
            pair.send_all([b"head", FileRange(short, 0, size, hot)])


def test_a_file_that_was_closed_is_an_error() -> None:
    with tempfile.TemporaryFile() as closed, Pair() as pair:
        file_range = FileRange(closed, 0, 10)
        closed.close()
        with pytest.raises(ShortFileError):
            pair.transmission.send(file_range)


def test_reading_past_the_end_of_a_file_in_a_thread_is_an_error() -> None:
    with tempfile.TemporaryFile() as empty, pytest.raises(ShortFileError):
        read_from_disk(FileRange(empty, 0, 10, hot=False))


def test_a_peer_that_left_is_an_error() -> None:
    with Pair() as pair:
        pair.far.close()
        with pytest.raises(OSError, match="Broken pipe"):
            pair.transmission.send(b"x")


def test_what_is_cleared_is_forgotten(file: IO[bytes]) -> None:
    with Pair(buffer=4096) as pair:
        pair.transmission.send([b"x" * 1_000_000, FileRange(file, 0, SIZE)])
        pair.transmission.clear()
        assert not pair.transmission
        assert pair.transmission.pump() is Progress.DONE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(data=st.data())
def test_any_answers_arrive_whole_and_in_order(file: IO[bytes], data: st.DataObject) -> None:
    part = st.one_of(
        st.binary(max_size=300),
        st.binary(min_size=1, max_size=20).map(lambda each: each * 5000),
        st.builds(
            lambda position, size, hot: FileRange(file, position, size, hot),
            st.integers(0, 1000),
            st.one_of(st.integers(0, 2000), st.integers(SMALL_RANGE - 2, SMALL_RANGE + 2)),
            st.booleans(),
        ),
    )
    with Pair(buffer=data.draw(st.sampled_from([2048, 65536]))) as pair:
        expected = bytearray()
        for _ in range(data.draw(st.integers(1, 6))):
            parts = data.draw(st.lists(part, max_size=6))
            pair.transmission.send(parts)
            for each in parts:
                is_range = isinstance(each, FileRange)
                expected += content(file, each.position, each.size) if is_range else each
            pair.read(data.draw(st.integers(1, 100_000)))
        pair.pump_all()
        assert pair.received == expected
        assert pair.transmission.sent_bytes == len(expected)
