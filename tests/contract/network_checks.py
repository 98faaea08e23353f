"""What listeners and links do, whatever carries the bytes: one suite for TCP and for the simulated network.

Each check is an async function that takes a `World`. They run on the real clock over TCP and on a jumping one
in the simulation, so they wait for conditions and never for an amount of time, except where a time-out is
what is checked.
"""

import contextlib
import struct
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest
import trio

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from cluster.network.connection import Connection, Dispatch
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.network.dialling import Dial, Link
from cluster.network.open_connections import NetworkLimits
from cluster.network.port import ListenError
from cluster.network.response_slot import ResponseSlot
from wire.errors import RemoteProtocolError
from wire.file_range import FileRange
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class World(Protocol):
    """A network with a server machine and a client machine."""

    host: str
    dial: Dial

    def listeners(self, dispatch: Dispatch, **options: Any) -> Any:
        """Listeners on one free port, with the listener name A."""
        ...


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(payload: memoryview, slot: ResponseSlot) -> None:
    slot.complete(frame(bytes(payload)))


def ask(payload: memoryview, slot: ResponseSlot) -> None:
    header, _ = decode_request(payload)
    slot.complete(encode_response(ApiVersionsResponse(), header.api_version, header.correlation_id))


@contextlib.asynccontextmanager
async def serving(world: World, dispatch: Dispatch, **options: Any) -> AsyncIterator[tuple[Any, int]]:
    listeners = world.listeners(dispatch, **options)
    async with trio.open_nursery() as nursery:
        await nursery.start(listeners.serve)
        yield listeners, listeners.bound_port("A")
        nursery.cancel_scope.cancel()
    assert list(listeners.connections) == []
    assert listeners.quotas.total == 0
    assert listeners.in_flight_bytes == 0


async def receive(link: Link, size: int) -> bytes:
    received = bytearray(size)
    end = 0
    while end < size:
        count = await link.receive_into(memoryview(received)[end:])
        if count == 0:
            break
        end += count
    return bytes(received[:end])


async def receive_to_end(link: Link) -> bytes:
    received = bytearray()
    space = memoryview(bytearray(65536))
    while True:
        try:
            count = await link.receive_into(space)
        except OSError:
            return bytes(received)
        if count == 0:
            return bytes(received)
        received += space[:count]


async def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    while not condition():  # noqa: ASYNC110 - plain state, with no event to wait for
        await trio.sleep(0.001)


def only(listeners: Any) -> Connection:
    (connection,) = listeners.connections
    assert isinstance(connection, Connection)
    return connection


async def check_requests_come_back_in_order(world: World) -> None:
    parked: list[ResponseSlot] = []

    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        if payload == b"parked":
            parked.append(slot)
        else:
            echo(payload, slot)

    async with serving(world, dispatch) as (listeners, port):
        link = await world.dial(world.host, port)
        payloads = [b"", b"parked", b"x" * 100_000, b"y"]
        for payload in payloads:
            await link.send(frame(payload))
        await until(lambda: listeners.counters.requests == 4)
        connection = only(listeners)
        assert connection.pending_count == 3
        assert connection.listener_name == "A"
        assert connection.frames_begun == 4
        parked[0].complete(frame(b"parked"))
        expected = b"".join(map(frame, payloads))
        assert await receive(link, len(expected)) == expected
        assert connection.sent_bytes == connection.received_bytes == len(expected)
        link.close()
        await until(lambda: connection.closed)


async def check_frames_may_come_in_pieces(world: World) -> None:
    async with serving(world, echo) as (_, port):
        link = await world.dial(world.host, port)
        data = frame(b"slow") + frame(b"x" * 70_000)
        for position in [*range(10), *range(10, len(data), 999)]:
            end = position + 1 if position < 10 else position + 999
            await link.send(data[position:end])
        assert await receive(link, len(data)) == data


async def check_files_are_sent(world: World) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(256)) * 20_000)
        file.flush()

        def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
            hot = payload == b"hot"
            slot.complete([b"head", FileRange(file, 256, 100, hot), FileRange(file, 512, 5_000_000, hot)])

        async with serving(world, dispatch) as (_, port):
            link = await world.dial(world.host, port)
            for payload in (b"hot", b"cold"):
                await link.send(frame(payload))
                answer = await receive(link, 5_000_104)
                assert answer == b"head" + bytes(range(100)) + (bytes(range(256)) * 20_000)[512:5_000_512]


async def check_a_file_that_is_too_short_ends_the_connection(world: World) -> None:
    with tempfile.TemporaryFile() as short:

        def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
            slot.complete([b"head", FileRange(short, 0, 100_000)])

        async with serving(world, dispatch) as (_, port):
            link = await world.dial(world.host, port)
            await link.send(frame(b"x"))
            assert await receive_to_end(link) in (b"", b"head")


async def check_garbage_ends_the_connection_after_the_answers(world: World) -> None:
    def refuse(payload: memoryview, slot: ResponseSlot) -> None:
        if payload == b"bad":
            raise RemoteProtocolError("not a request")
        echo(payload, slot)

    limits = NetworkLimits(frame_size_max=1000)
    async with serving(world, refuse, limits=limits) as (listeners, port):
        for garbage in (frame(b"bad"), struct.pack(">i", -1), struct.pack(">i", 1001)):
            link = await world.dial(world.host, port)
            await link.send(frame(b"good") + garbage)
            assert await receive_to_end(link) == frame(b"good")
        await until(lambda: listeners.quotas.total == 0)


async def check_a_closing_slot_ends_the_connection(world: World) -> None:
    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        if payload == b"close":
            slot.close()
        else:
            echo(payload, slot)

    async with serving(world, dispatch) as (_, port):
        link = await world.dial(world.host, port)
        await link.send(frame(b"x") + frame(b"close") + frame(b"y"))
        assert await receive_to_end(link) == frame(b"x")


async def check_a_peer_that_does_not_read_is_read_no_further(world: World) -> None:
    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        slot.complete(bytes(1_000_000))

    limits = NetworkLimits(in_flight_bytes_max=3_000_000)
    async with serving(world, dispatch, limits=limits) as (listeners, port):
        link = await world.dial(world.host, port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.send, frame(b"x" * 1000) * 100)
            await until(lambda: any(each.waits_for_room for each in listeners.connections))
            connection = only(listeners)
            assert connection.is_sending
            assert connection.frames_begun < 100
            for _ in range(100):
                assert len(await receive(link, 1_000_000)) == 1_000_000
        assert connection.frames_begun == 100
        await until(lambda: connection.is_idle)


async def check_stopping_lets_answers_out(world: World) -> None:
    parked: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        parked.append(slot)

    listeners = world.listeners(park)
    async with trio.open_nursery() as nursery:
        await nursery.start(listeners.serve)
        port = listeners.bound_port("A")
        answered = await world.dial(world.host, port)
        await answered.send(frame(b"x"))
        await until(lambda: len(parked) == 1)
        forgotten = await world.dial(world.host, port)
        await forgotten.send(frame(b"y"))
        await until(lambda: len(parked) == 2)
        idle = await world.dial(world.host, port)
        await until(lambda: listeners.quotas.total == 3)
        nursery.start_soon(listeners.stop, 0.3)
        assert await receive_to_end(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            await world.dial(world.host, port)
        parked[0].complete(b"answer")
        assert await receive_to_end(answered) == b"answer"
        assert await receive_to_end(forgotten) == b""
    assert list(listeners.connections) == []


async def check_limits_hold(world: World) -> None:
    quotas = ConnectionQuotas(("A",), per_address_max=2)
    async with serving(world, echo, quotas=quotas) as (listeners, port):
        links = [await world.dial(world.host, port) for _ in range(2)]
        await until(lambda: quotas.total == 2)
        refused = await world.dial(world.host, port)
        assert await receive_to_end(refused) == b""
        links[0].close()
        await until(lambda: quotas.total == 1)
        again = await world.dial(world.host, port)
        await again.send(frame(b"x"))
        assert await receive(again, 5) == frame(b"x")
        assert (listeners.counters.accepted, listeners.counters.rejected) == (3, 1)


async def check_connections_wait_for_a_slot(world: World) -> None:
    quotas = ConnectionQuotas(("A",), connections_max=1)
    async with serving(world, echo, quotas=quotas) as (_, port):
        first = await world.dial(world.host, port)
        await until(lambda: quotas.total == 1)
        second = await world.dial(world.host, port)
        await second.send(frame(b"x"))
        with trio.move_on_after(0.05) as scope:
            await receive(second, 1)
        assert scope.cancelled_caught
        first.close()
        assert await receive(second, 5) == frame(b"x")


async def check_connections_that_come_too_fast_wait(world: World) -> None:
    quotas = ConnectionQuotas(("A",), rate_windows=1, rate_window_s=0.2)
    quotas.listener_rates["A"].limit = 1
    async with serving(world, echo, quotas=quotas) as (listeners, port):
        links = [await world.dial(world.host, port) for _ in range(2)]
        for link in links:
            await link.send(frame(b"x"))
        assert await receive(links[0], 5) == frame(b"x")
        rest_s = quotas.rest_s("A", trio.current_time())
        with trio.move_on_after(rest_s * 0.9) as scope:
            await receive(links[1], 1)
        assert scope.cancelled_caught == (rest_s > 0)
        assert await receive(links[1], 5) == frame(b"x")
        assert quotas.rests_by_listener() == {("A",): pytest.approx(0.4)}
        assert listeners.counters.accepted == 2


async def check_the_idle_are_cut_off(world: World) -> None:
    limits = NetworkLimits(idle_close_s=0.2, slow_frame_s=0.2, slow_rate_min=1_000_000, unread_s=0.2)
    parked: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        parked.append(slot)

    async with serving(world, park, limits=limits) as (listeners, port):
        idle, slow, waiting = [await world.dial(world.host, port) for _ in range(3)]
        await slow.send(frame(b"xxx")[:5])
        await waiting.send(frame(b"x"))
        assert await receive_to_end(idle) == b""
        assert await receive_to_end(slow) == b""
        assert listeners.counters.cut_off == 2
        parked[0].complete(b"still there")
        assert await receive(waiting, 11) == b"still there"


async def check_peers_that_come_before_serving_wait(world: World) -> None:
    listeners = world.listeners(echo)
    listeners.bind()
    link = await world.dial(world.host, listeners.bound_port("A"))
    await link.send(frame(b"early"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listeners.serve)
        assert await receive(link, 9) == frame(b"early")
        nursery.cancel_scope.cancel()


async def check_a_taken_port_is_told(world: World) -> None:
    listeners = world.listeners(echo)
    listeners.bind()
    with pytest.raises(ListenError, match="cannot listen on A://"):
        world.listeners(echo, port=listeners.bound_port("A")).bind()
    listeners.close()
    with pytest.raises(KeyError):
        listeners.bound_port("A")


async def check_a_client_asks_and_fails_and_asks_again(world: World) -> None:
    async with serving(world, ask) as (listeners, port):
        client = BrokerClient(world.host, port, "test", dial=world.dial)
        for _ in range(3):
            assert (await client.request(ApiVersionsRequest(), 3)).error_code == 0
        assert listeners.counters.accepted == 1
        only(listeners).close()
        with pytest.raises(ConnectionFailedError):
            await client.request(ApiVersionsRequest(), 3)
        assert (await client.request(ApiVersionsRequest(), 3)).error_code == 0
        client.close()
    with pytest.raises(ConnectionFailedError, match="Connection refused"):
        await client.request(ApiVersionsRequest(), 3)


async def check_a_client_gives_up_in_time(world: World) -> None:
    async with serving(world, lambda payload, slot: None) as (listeners, port):
        client = BrokerClient(world.host, port, "test", request_timeout_s=0.1, dial=world.dial)
        with pytest.raises(ConnectionFailedError, match="no answer within"):
            await client.request(ApiVersionsRequest(), 3)
        assert not client.is_connected
        await until(lambda: listeners.quotas.total == 0)


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]
