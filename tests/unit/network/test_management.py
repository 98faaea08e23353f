"""Calls, streams and protocol errors over streams in memory."""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
import trio
import trio.testing

from cluster.network.management import (
    REQUESTS_AT_ONCE,
    BadFrameError,
    FrameStream,
    ManagementError,
    ManagementServer,
)
from cluster.network.management_client import ManagementClient


async def describe(params: Mapping[str, Any]) -> object:
    return {"you said": params}


async def count(params: Mapping[str, Any]) -> AsyncIterator[int]:
    for number in range(params["to"]):
        yield number


async def fail(params: Mapping[str, Any]) -> object:
    raise ManagementError("not now")


async def hang(params: Mapping[str, Any]) -> object:
    await trio.sleep_forever()
    return None


METHODS = {"describe": describe, "count": count, "fail": fail, "hang": hang}


def run(body: Callable[[trio.StapledStream], Awaitable[None]]) -> None:
    async def main() -> None:
        near, far = trio.testing.memory_stream_pair()
        server = ManagementServer(Path("unused"), METHODS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server._serve_connection, near)
            await body(far)
            nursery.cancel_scope.cancel()

    trio.run(main)


def client_of(stream: trio.StapledStream) -> ManagementClient:
    return ManagementClient(stream)  # type: ignore[arg-type]  # any stream does


async def send(stream: trio.StapledStream, message: object) -> None:
    data = msgpack.packb(message)
    await stream.send_all(struct.pack(">I", len(data)) + data)


def test_calls_and_streams() -> None:
    async def body(stream: trio.StapledStream) -> None:
        client = client_of(stream)
        assert await client.call("describe", a=1) == {"you said": {"a": 1}}
        assert [number async for number in client.stream("count", to=3)] == [0, 1, 2]
        assert [number async for number in client.stream("count", to=0)] == []

    run(body)


def test_mistakes_are_told_and_the_connection_goes_on() -> None:
    async def body(stream: trio.StapledStream) -> None:
        client = client_of(stream)
        with pytest.raises(ManagementError, match="not now"):
            await client.call("fail")
        with pytest.raises(ManagementError, match="no method 'nothing'; there are count, describe"):
            await client.call("nothing")
        assert await client.call("describe") == {"you said": {}}

    run(body)


def test_requests_run_side_by_side() -> None:
    async def body(stream: trio.StapledStream) -> None:
        await send(stream, {"id": 1, "method": "hang"})
        await send(stream, {"id": 2, "method": "describe"})
        client = client_of(stream)
        client._number = 1
        assert (await client._next(2))["result"] == {"you said": {}}

    run(body)


def test_only_so_many_requests_run_at_once() -> None:
    async def body(stream: trio.StapledStream) -> None:
        for number in range(REQUESTS_AT_ONCE):
            await send(stream, {"id": number, "method": "hang"})
        await send(stream, {"id": 99, "method": "describe"})
        with trio.move_on_after(0.02) as scope:
            await stream.receive_some()
        assert scope.cancelled_caught, "the next one waits until one is done"

    run(body)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">I", 1) + b"\xc1",
        struct.pack(">I", 1) + b"\x01",
        struct.pack(">I", 1) + b"\x80",
        struct.pack(">I", 0),
    ],
)
def test_what_is_no_request_ends_the_connection(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def body(stream: trio.StapledStream) -> None:
        await stream.send_all(data)
        assert await stream.receive_some() == b""

    run(body)
    assert "Closing a management connection" in caplog.text


@pytest.mark.parametrize("params", [3, "x", [1]])
def test_params_are_a_map(params: object) -> None:
    async def body(stream: trio.StapledStream) -> None:
        await send(stream, {"id": 1, "method": "describe", "params": params})
        client = client_of(stream)
        with pytest.raises(ManagementError, match="params is not a map"):
            await client._next(1)

    run(body)


def test_frames_may_come_in_pieces_and_a_cancelled_receive_loses_none() -> None:
    async def main() -> None:
        near, far = trio.testing.memory_stream_pair()
        frames = FrameStream(near, 100)
        for byte in struct.pack(">I", 3) + b"ab":
            await far.send_all(bytes([byte]))
            with trio.CancelScope() as scope:
                scope.cancel()
                await frames.receive()
            with trio.move_on_after(0.001):
                await frames.receive()
        await far.send_all(b"c" + struct.pack(">I", 0))
        assert await frames.receive() == b"abc"
        assert await frames.receive() == b""
        await far.send_all(struct.pack(">I", 101))
        with pytest.raises(BadFrameError):
            await frames.receive()

    trio.run(main)
