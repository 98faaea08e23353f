"""Listeners on real TCP: ports, limits, cutting off, running out of descriptors, stopping."""

import contextlib
import errno
import logging
import os
import resource
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.network.endpoints import Endpoint, parse_listeners
from cluster.network.listener import Listeners
from cluster.network.management import ManagementServer
from cluster.network.management_client import open_management_client
from cluster.network.open_connections import NetworkLimits
from cluster.network.port import ListenError
from cluster.network.response_slot import ResponseSlot
from wire.file_range import FileRange
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

ENDPOINT = Endpoint("A", "127.0.0.1", 0)
TIMEOUT_S = 20.0


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def echo(payload: memoryview, slot: ResponseSlot) -> None:
    slot.complete(frame(bytes(payload)))


@contextlib.asynccontextmanager
async def serving(listeners: Listeners) -> AsyncIterator[int]:
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(listeners.serve)
            yield next(iter(listeners.bound_ports().values()))
            nursery.cancel_scope.cancel()
    assert not list(listeners.connections)
    assert listeners.quotas.total == 0
    assert listeners.in_flight_bytes == 0


async def dial(port: int, host: str = "127.0.0.1") -> trio.SocketStream:
    return await trio.open_tcp_stream(host, port)


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        data = await stream.receive_some(size - len(received))
        if not data:
            break
        received += data
    return bytes(received)


async def is_cut_off(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some(1) == b""
    except trio.BrokenResourceError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    """Poll in each pass of the loop; the caller's timeout limits it."""
    while not condition():
        await trio.lowlevel.checkpoint()


def run(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body)


def test_several_listeners_serve_and_name_themselves() -> None:
    names: list[str] = []

    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        names.append(slot.connection.listener_name)
        slot.complete(frame(bytes(payload)))

    async def main() -> None:
        endpoints = parse_listeners(
            "PLAINTEXT://127.0.0.1:0,SSL://:0",
        )
        listeners = Listeners(endpoints, dispatch)
        async with serving(listeners):
            streams = {name: await dial(listeners.bound_port(name)) for name in ("PLAINTEXT", "SSL")}
            for stream in streams.values():
                await stream.send_all(frame(b"x"))
                assert await receive(stream, 5) == frame(b"x")
            assert listeners.quotas.counts_by_listener() == {("PLAINTEXT",): 1, ("SSL",): 1}
            assert {each.peer_host for each in listeners.connections} == {"127.0.0.1"}

    run(main)
    assert names == ["PLAINTEXT", "SSL"]


def test_requests_in_any_pieces_over_many_connections() -> None:
    async def one(port: int, number: int) -> None:
        stream = await dial(port)
        payloads = [bytes([number]) * size for size in (0, 1, 100, 70_000, 3, 300_000)]
        data = b"".join(map(frame, payloads))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_in_pieces, stream, data, 1 + number * 977)
            assert await receive(stream, len(data)) == data

    async def send_in_pieces(stream: trio.SocketStream, data: bytes, step: int) -> None:
        if step < 100:
            await stream.send_all(data[:200])
            data = data[200:]
            step = 10_000
        for position in range(0, len(data), step):
            await stream.send_all(data[position : position + step])

    async def main() -> None:
        async with serving(Listeners([ENDPOINT], echo)) as port, trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, port, number)

    run(main)


@pytest.mark.parametrize("hot", [True, False])
def test_large_files_go_out_whole(hot: bool) -> None:
    size = 20_000_000
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(size))
        file.flush()

        def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
            slot.complete([b"head", FileRange(file, 0, size, hot), b"tail"])

        async def main() -> None:
            async with serving(Listeners([ENDPOINT], dispatch)) as port:
                stream = await dial(port)
                await stream.send_all(frame(b"x") * 2)
                for _ in range(2):
                    got = await receive(stream, size + 8)
                    assert got[:4] + got[-4:] == b"headtail"
                    assert got[4:-4] == os.pread(file.fileno(), size, 0)

        run(main)


def test_a_taken_port_is_told_and_nothing_stays_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listeners = Listeners([ENDPOINT, Endpoint("B", "127.0.0.1", port)], echo)
        with pytest.raises(ListenError, match=rf"cannot listen on B://127\.0\.0\.1:{port}") as caught:
            listeners.bind()
        assert caught.value.errno == errno.EADDRINUSE
        with pytest.raises(KeyError):
            listeners.bound_port("A")


def test_a_host_that_is_not_ours_is_told() -> None:
    with pytest.raises(ListenError, match=r"no-such-host\.invalid"):
        Listeners([Endpoint("A", "no-such-host.invalid", 0)], echo).bind()


def test_peers_that_come_before_serving_wait() -> None:
    async def main() -> None:
        listeners = Listeners([ENDPOINT], echo)
        listeners.bind()
        stream = await dial(listeners.bound_port("A"))
        await stream.send_all(frame(b"early"))
        async with serving(listeners):
            assert await receive(stream, 9) == frame(b"early")

    run(main)


def test_an_address_over_its_limit_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        quotas = ConnectionQuotas(("A",), per_address_max=2)
        listeners = Listeners([ENDPOINT], echo, quotas=quotas)
        async with serving(listeners) as port:
            kept = [await dial(port) for _ in range(2)]
            await until(lambda: quotas.total == 2)
            assert await is_cut_off(await dial(port))
            assert listeners.counters.rejected == 1
            await kept[0].aclose()
            await until(lambda: quotas.total == 1)
            again = await dial(port)
            await again.send_all(frame(b"x"))
            assert await receive(again, 5) == frame(b"x")

    run(main)
    assert "Refusing a connection of 127.0.0.1" in caplog.text


def test_over_the_total_new_connections_wait_for_one_to_leave() -> None:
    async def main() -> None:
        quotas = ConnectionQuotas(("A",), connections_max=1)
        async with serving(Listeners([ENDPOINT], echo, quotas=quotas)) as port:
            first = await dial(port)
            await first.send_all(frame(b"1"))
            assert await receive(first, 5) == frame(b"1")
            second = await dial(port)
            await second.send_all(frame(b"2"))
            with trio.move_on_after(0.05) as scope:
                await second.receive_some(1)
            assert scope.cancelled_caught
            await first.aclose()
            assert await receive(second, 5) == frame(b"2")

    run(main)


def test_a_broker_comes_in_over_the_total_and_a_client_goes() -> None:
    async def main() -> None:
        quotas = ConnectionQuotas(("A", "B"), inter_broker_listener="B", connections_max=1)
        listeners = Listeners([ENDPOINT, Endpoint("B", "127.0.0.1", 0)], echo, quotas=quotas)
        async with serving(listeners):
            client = await dial(listeners.bound_port("A"))
            await until(lambda: quotas.total == 1)
            broker = await dial(listeners.bound_port("B"))
            assert await is_cut_off(client)
            await broker.send_all(frame(b"x"))
            assert await receive(broker, 5) == frame(b"x")

    run(main)


def test_the_idle_and_the_slow_are_cut_off_by_name(caplog: pytest.LogCaptureFixture) -> None:
    limits = NetworkLimits(idle_close_s=0.2, slow_frame_s=0.1, slow_rate_min=1_000_000, unread_s=0.2)

    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        if payload == b"much":
            slot.complete(bytes(50_000_000))
        elif payload != b"parked":
            slot.complete(frame(bytes(payload)))

    async def main() -> None:
        listeners = Listeners([ENDPOINT], dispatch, limits=limits)
        async with serving(listeners) as port:
            idle, slow, deaf, waiting = [await dial(port) for _ in range(4)]
            await slow.send_all(frame(b"x" * 1000)[:500])
            await deaf.send_all(frame(b"much"))
            await waiting.send_all(frame(b"parked"))
            assert await is_cut_off(slow)
            assert await is_cut_off(idle)
            await until(lambda: listeners.counters.cut_off == 3)
            assert listeners.quotas.total == 1, "a client that waits for an answer stays"

    with caplog.at_level(logging.WARNING):
        run(main)
    for reason in ("idle for", "is not complete after", "it took nothing of its answers"):
        assert reason in caplog.text


def test_running_out_of_descriptors_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        listeners = Listeners([ENDPOINT], echo)
        async with serving(listeners) as port:
            early = await dial(port)
            await early.send_all(frame(b"x"))
            assert await receive(early, 5) == frame(b"x")
            dialling = [socket.socket() for _ in range(3)]
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
            try:
                for sock in dialling:
                    sock.connect(("127.0.0.1", port))
                await until(lambda: "takes no connections for now" in caplog.text)
                await early.send_all(frame(b"y"))
                assert await receive(early, 5) == frame(b"y")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for sock in dialling:
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
                await stream.send_all(frame(b"z"))
                assert await receive(stream, 5) == frame(b"z")
                await stream.aclose()

    with caplog.at_level(logging.INFO):
        run(main)
    assert caplog.text.count("takes no connections for now") == 1
    assert "takes connections again" in caplog.text


def test_some_descriptors_are_kept_for_files(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        used = max(int(name) for name in os.listdir("/proc/self/fd"))
        listeners = Listeners([ENDPOINT], echo, limits=NetworkLimits(descriptor_max=used + 20))
        async with serving(listeners) as port:
            streams = []
            while "the descriptors that are left are kept for files" not in caplog.text:
                streams.append(await dial(port))
            await streams[0].send_all(frame(b"x"))
            assert await receive(streams[0], 5) == frame(b"x")
            for stream in streams:
                await stream.aclose()
            late = await dial(port)
            await late.send_all(frame(b"y"))
            assert await receive(late, 5) == frame(b"y")
            await late.aclose()

    with caplog.at_level(logging.INFO):
        run(main)


@pytest.mark.parametrize("number", [errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENOBUFS])
def test_accepting_goes_on_after_the_network_was_down(
    number: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = socket.socket.accept
    failures = [OSError(number, os.strerror(number))]

    def accept_or_fail(self: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return accept(self)

    async def main() -> None:
        async with serving(Listeners([ENDPOINT], echo)) as port:
            stream = await dial(port)
            await stream.send_all(frame(b"x"))
            assert await receive(stream, 5) == frame(b"x")
            await stream.aclose()

    monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
    with caplog.at_level(logging.INFO):
        run(main)
    assert "takes no connections for now" in caplog.text


def test_stopping_lets_answers_out_within_the_grace() -> None:
    slots: list[ResponseSlot] = []

    def park(payload: memoryview, slot: ResponseSlot) -> None:
        slots.append(slot)

    async def main() -> None:
        listeners = Listeners([ENDPOINT], park)
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(listeners.serve)
                port = listeners.bound_port("A")
                answered, forgotten, idle = [await dial(port) for _ in range(3)]
                await answered.send_all(frame(b"1"))
                await until(lambda: len(slots) == 1)
                await forgotten.send_all(frame(b"2"))
                await until(lambda: len(slots) == 2)
                nursery.start_soon(listeners.stop, 0.3)
                assert await is_cut_off(idle)
                with pytest.raises(OSError, match="all attempts to connect"):
                    await dial(port)
                slots[0].complete(b"answer")
                assert await receive(answered, 100) == b"answer"
                assert await is_cut_off(forgotten)
            # `serve` has ended by itself.

    run(main)


def test_a_broker_client_over_tcp() -> None:
    def dispatch(payload: memoryview, slot: ResponseSlot) -> None:
        header, _ = decode_request(payload)
        slot.complete(encode_response(ApiVersionsResponse(), header.api_version, header.correlation_id))

    async def main() -> None:
        listeners = Listeners([Endpoint("A", "localhost", 0)], dispatch)
        async with serving(listeners) as port:
            client = BrokerClient("localhost", port, "test")
            for version in (0, 3):
                assert (await client.request(ApiVersionsRequest(), version)).error_code == 0
            assert listeners.counters.accepted == 1
            for connection in listeners.connections:
                connection.close()
            with pytest.raises(ConnectionFailedError):
                await client.request(ApiVersionsRequest(), 3)
            assert (await client.request(ApiVersionsRequest(), 3)).error_code == 0
            client.close()
            listeners.stop_accepting()
            with pytest.raises(ConnectionFailedError, match="Connection refused"):
                await client.request(ApiVersionsRequest(), 3)

    run(main)


def test_the_management_socket_in_a_deep_directory(tmp_path: Path) -> None:
    async def ping(params: object) -> object:
        return "pong"

    async def main() -> None:
        path = tmp_path / ("x" * 100) / ("y" * 100) / "management.sock"
        path.parent.mkdir(parents=True)
        path.touch()  # what a dead broker left
        async with trio.open_nursery() as nursery:
            await nursery.start(ManagementServer(path, {"ping": ping}).serve)
            assert path.stat().st_mode & 0o777 == 0o600
            async with open_management_client(path) as client:
                assert await client.call("ping") == "pong"
            nursery.cancel_scope.cancel()
        assert not path.exists()

    run(main)
