"""The trio shell over a socket pair: order, back-pressure, bad peers, and cancellation at every await."""

import contextlib
import logging
import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import trio
import trio.testing

from cluster.network.buffer_pool import BASE_SIZE, BufferPool
from cluster.network.byte_budget import ByteBudget
from cluster.network.connection import Dispatch
from cluster.network.response_slot import ResponseSlot
from cluster.network.socket_connection import LOW_WATER_MAX, SocketConnection
from wire.errors import RemoteProtocolError
from wire.file_range import FileRange


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Peer:
    """The other end, and the connection under test."""

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        frame_size_max: int = 1 << 20,
        budget: ByteBudget | None = None,
        in_flight_bytes_max: int = 1 << 20,
        buffer: int | None = None,
    ) -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        if buffer is not None:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self.near_socket = near
        self.socket = far
        self.pool = BufferPool()
        self.connection = SocketConnection(
            near,
            "10.0.0.1",
            4711,
            "A",
            dispatch,
            pool=self.pool,
            frame_size_max=frame_size_max,
            budget=budget,
            in_flight_bytes_max=in_flight_bytes_max,
        )

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            await trio.lowlevel.wait_writable(self.socket)
            view = view[self.socket.send(view) :]

    async def receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            await trio.lowlevel.wait_readable(self.socket)
            data = self.socket.recv(size - len(received))
            if not data:
                break
            received += data
        return bytes(received)

    async def wait_end(self) -> bytes:
        received = bytearray()
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return bytes(received)
            received += data


@contextlib.asynccontextmanager
async def serving(peer: Peer) -> AsyncIterator[SocketConnection]:
    with peer.socket:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.connection.run)
            yield peer.connection
            nursery.cancel_scope.cancel()
    assert peer.connection.closed
    assert peer.near_socket.fileno() == -1


def echo(payload: memoryview, slot: ResponseSlot) -> None:
    slot.complete(frame(bytes(payload)))


def test_requests_are_answered() -> None:
    async def main() -> None:
        peer = Peer(echo)
        async with serving(peer) as connection:
            await peer.send(frame(b"one") + frame(b"") + frame(b"three"))
            assert await peer.receive(20) == frame(b"one") + frame(b"") + frame(b"three")
            assert connection.frames_begun == 3
            assert connection.received_bytes == connection.sent_bytes == 20
            assert connection.is_idle
            assert peer.pool.idle_bytes == BASE_SIZE

    trio.run(main)


def test_a_request_may_come_byte_by_byte() -> None:
    async def main() -> None:
        peer = Peer(echo)
        async with serving(peer) as connection:
            for byte in frame(b"slow") * 2:
                await peer.send(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            assert await peer.receive(16) == frame(b"slow") * 2
            assert not connection.is_inside_frame

    trio.run(main)


def test_the_rest_of_a_large_request_wakes_the_reader_for_many_bytes_at_a_time() -> None:
    async def main() -> None:
        peer = Peer(echo)
        low_water = partial(peer.near_socket.getsockopt, socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        async with serving(peer):
            request = frame(b"x" * 100_000)
            await peer.send(request[:1000])
            await trio.testing.wait_all_tasks_blocked()
            assert low_water() == LOW_WATER_MAX
            await peer.send(request[1000:-10])
            await trio.testing.wait_all_tasks_blocked()
            assert low_water() == 1
            await peer.send(request[-10:])
            assert await peer.receive(len(request)) == request
            await peer.send(frame(b"small"))
            assert await peer.receive(9) == frame(b"small")

    trio.run(main)


def test_answers_keep_the_order_of_requests() -> None:
    slots: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        slots.append(slot)

    async def main() -> None:
        peer = Peer(park)
        async with serving(peer):
            await peer.send(frame(b"1") + frame(b"2") + frame(b"3"))
            await trio.testing.wait_all_tasks_blocked()
            slots[2].complete(b"third")
            slots[0].complete(b"first")
            assert await peer.receive(5) == b"first"
            slots[1].skip()
            assert await peer.receive(5) == b"third"

    trio.run(main)


def test_answers_of_one_receive_leave_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        peer = Peer(echo)
        async with serving(peer) as connection:
            sends: list[object] = []
            real = connection._transmission.send
            monkeypatch.setattr(
                type(connection._transmission),
                "send",
                lambda self, answer: (sends.append(answer), real(answer))[1],
            )
            await peer.send(frame(b"a") * 10)
            assert await peer.receive(50) == frame(b"a") * 10
            assert len(sends) == 1

    trio.run(main)


def test_large_answers_wait_for_the_peer_without_holding_up_the_reader() -> None:
    big = os.urandom(3_000_000)

    def answer(payload: memoryview, slot: ResponseSlot) -> None:
        slot.complete(big if payload == b"big" else bytes(payload))

    async def main() -> None:
        budget = ByteBudget()
        peer = Peer(answer, buffer=8192, in_flight_bytes_max=1 << 30, budget=budget)
        async with serving(peer) as connection:
            await peer.send(frame(b"big") + frame(b"after"))
            await trio.testing.wait_all_tasks_blocked()
            assert connection.is_sending
            await peer.send(frame(b"more"))
            await trio.testing.wait_all_tasks_blocked()
            assert connection.frames_begun == 3
            assert await peer.receive(len(big) + 9) == big + b"aftermore"
            await trio.testing.wait_all_tasks_blocked()
            assert connection.is_idle
            assert budget.used == 0
            await peer.send(frame(b"big"))
            assert await peer.receive(len(big)) == big, "the writer works again after its rest"

    trio.run(main)


def test_a_peer_that_never_reads_is_read_no_further_and_resumed() -> None:
    def answer(payload: memoryview, slot: ResponseSlot) -> None:
        slot.complete(bytes(100_000))

    async def main() -> None:
        peer = Peer(answer, buffer=4096, in_flight_bytes_max=300_000)
        async with serving(peer) as connection:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.send, frame(b"x" * 1000) * 300)
                await trio.testing.wait_all_tasks_blocked(0.002)
                held = connection.in_flight_bytes
                assert connection.waits_for_room
                assert connection.frames_begun < 100
                assert held < 300_000 + 33 * 101_000, "one corked write may go past the bound"
                received = 0
                while received < 300 * 100_000:
                    received += len(await peer.receive(min(4_000_000, 300 * 100_000 - received)))
            assert connection.frames_begun == 300

    trio.run(main)


def test_waiting_requests_stop_the_reader_until_one_is_answered() -> None:
    slots: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        slots.append(slot)

    async def main() -> None:
        peer = Peer(park, in_flight_bytes_max=2000)
        async with serving(peer):
            await peer.send(frame(b"x" * 500) * 5)
            await trio.testing.wait_all_tasks_blocked()
            assert len(slots) == 2
            slots[0].skip()
            await trio.testing.wait_all_tasks_blocked()
            assert len(slots) == 3
            for slot in slots[1:]:
                slot.skip()
            await trio.testing.wait_all_tasks_blocked()
            assert len(slots) == 5

    trio.run(main)


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_a_length_that_cannot_be_ends_the_connection_by_name(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        peer = Peer(echo, frame_size_max=100)
        async with serving(peer):
            await peer.send(frame(b"fine") + struct.pack(">i", size) + b"garbage")
            assert await peer.wait_end() == frame(b"fine"), "what came before is answered"

    with caplog.at_level(logging.WARNING):
        trio.run(main)
    assert f"10.0.0.1:4711 on A: a frame of {size} bytes" in caplog.text


def test_a_request_that_is_none_ends_the_connection_by_name(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(payload: memoryview, slot: ResponseSlot) -> None:
        raise RemoteProtocolError("this is HTTP")

    async def main() -> None:
        peer = Peer(refuse)
        async with serving(peer):
            await peer.send(frame(b"GET /"))
            assert await peer.wait_end() == b""

    trio.run(main)
    assert "10.0.0.1:4711 on A: this is HTTP" in caplog.text


def test_a_bug_in_a_handler_is_not_swallowed() -> None:
    def broken(payload: memoryview, slot: ResponseSlot) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        peer = Peer(broken)
        with peer.socket:
            await peer.send(frame(b"x"))
            await peer.connection.run()

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(ZeroDivisionError)


def test_a_closing_slot_ends_the_connection_and_begins_nothing_after_it() -> None:
    begun: list[bytes] = []

    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        begun.append(bytes(payload))
        if payload == b"bad":
            slot.close()
        else:
            slot.complete(frame(bytes(payload)))

    async def main() -> None:
        peer = Peer(dispatch)
        async with serving(peer):
            await peer.send(frame(b"good") + frame(b"bad") + frame(b"late"))
            assert await peer.wait_end() == frame(b"good")

    trio.run(main)
    assert begun == [b"good", b"bad"]


def test_finish_lets_the_answers_under_way_out() -> None:
    slots: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        slots.append(slot)

    async def main() -> None:
        peer = Peer(park)
        async with serving(peer) as connection:
            await peer.send(frame(b"x"))
            await trio.testing.wait_all_tasks_blocked()
            connection.finish()
            await peer.send(frame(b"too late"))
            await trio.testing.wait_all_tasks_blocked()
            assert len(slots) == 1
            assert not connection.closed
            slots[0].complete(b"answer")
            assert await peer.wait_end() == b"answer"

    trio.run(main)


def test_a_peer_that_leaves_frees_everything() -> None:
    slots: list[ResponseSlot] = []
    budget = ByteBudget(10_000)
    left: list[bool] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        slots.append(slot)

    async def main() -> None:
        peer = Peer(park, budget=budget)
        async with serving(peer) as connection:
            connection.call_on_close(lambda: left.append(True))
            await peer.send(frame(b"x" * 1000) + b"\0\0")
            await trio.testing.wait_all_tasks_blocked()
            assert budget.used > 0
            peer.socket.close()
            await trio.testing.wait_all_tasks_blocked()
            assert connection.closed
            assert budget.used == 0
            assert left == [True]
            assert peer.pool.idle_bytes == BASE_SIZE
            slots[0].complete(b"nobody")

    trio.run(main)


def test_a_file_that_is_too_short_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with tempfile.TemporaryFile() as short:
            short.write(b"x" * 50_000)
            short.flush()

            def answer(payload: memoryview, slot: ResponseSlot) -> None:
                slot.complete([b"head", FileRange(short, 0, 60_000)])

            peer = Peer(answer)
            async with serving(peer):
                await peer.send(frame(b"x"))
                assert len(await peer.wait_end()) == 50_004

    trio.run(main)
    assert "a file ends before byte 60000" in caplog.text


def test_a_cold_range_is_read_in_a_thread_and_later_answers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def preadv(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", preadv)
    data = os.urandom(700_000)

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()

            def answer(payload: memoryview, slot: ResponseSlot) -> None:
                slot.complete(FileRange(file, 0, len(data), hot=False) if payload == b"cold" else b"after")

            peer = Peer(answer)
            async with serving(peer):
                await peer.send(frame(b"cold") + frame(b"x"))
                assert await peer.receive(len(data) + 5) == data + b"after"

    trio.run(main)


class CancelAfter(trio.abc.Instrument):
    """Cancels a scope after a number of steps of any tasks."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.scope: trio.CancelScope | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.steps -= 1
            if self.steps == 0:
                self.scope.cancel()


def run_cancelled(steps: int, body: Callable[[ByteBudget, list[Peer]], "object"]) -> bool:
    """Run a body and cancel it after a number of task steps; return True if it ended before."""
    budget = ByteBudget(1 << 30)
    peers: list[Peer] = []
    instrument = CancelAfter(steps)
    ended = False

    async def main() -> None:
        nonlocal ended
        with trio.CancelScope() as scope:
            instrument.scope = scope
            await body(budget, peers)  # type: ignore[misc]
            ended = True

    try:
        trio.run(main, instruments=[instrument])
        for peer in peers:
            assert peer.connection.closed
            assert peer.near_socket.fileno() == -1
            assert not peer.connection.is_sending
        assert budget.used == 0
    finally:
        for peer in peers:
            peer.socket.close()
    return ended


def test_cancelled_at_any_await_it_leaves_nothing_open() -> None:
    big = bytes(300_000)

    def answer(payload: memoryview, slot: ResponseSlot) -> None:
        if payload != b"parked":
            slot.complete(big)

    async def body(budget: ByteBudget, peers: list[Peer]) -> None:
        peer = Peer(answer, buffer=8192, budget=budget, in_flight_bytes_max=500_000)
        peers.append(peer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.connection.run)
            await peer.send(frame(b"x") * 4)
            assert len(await peer.receive(4 * len(big))) == 4 * len(big)
            await peer.send(frame(b"parked") + b"\0")
            await trio.testing.wait_all_tasks_blocked()
            peer.connection.close()

    for steps in range(1, 5000):
        if run_cancelled(steps, body):
            assert steps > 20, "there were awaits to be cancelled at"
            return
    raise AssertionError("it never ends")


def test_a_close_is_seen_before_what_was_sent_earlier_is_read() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    connection = SocketConnection(
        near, "10.0.0.1", 4711, "A", lambda view, slot: None, pool=BufferPool(), frame_size_max=1 << 20
    )
    far.send(frame(b"x") * 3)
    assert not connection.peer_has_gone
    far.close()
    assert connection.peer_has_gone
    near.close()
