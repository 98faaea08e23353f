"""The client's event loops: all that it uses of them is in one place, and means the same on both."""

import ast
import socket
from pathlib import Path

import anyio
import pytest

import ottla.client
from ottla.client import runtime

ROOM = Path(ottla.client.__file__).parent


def test_only_the_runtime_knows_the_loops() -> None:
    guilty = []
    for path in ROOM.rglob("*.py"):
        if path.parent.name == "runtime" or path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            guilty += [path.name for name in names if name.split(".")[0] in ("trio", "asyncio", "anyio")]
    assert not guilty


@pytest.fixture(params=["trio", "asyncio"])
def run(request: pytest.FixtureRequest):
    def run_body(body):
        return anyio.run(body, backend=request.param)

    return run_body


def test_a_socket_that_is_closed_wakes_who_waits_for_it(run) -> None:
    async def body() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        outcomes = []

        async def wait() -> None:
            try:
                await runtime.wait_readable(ours)
            except runtime.ClosedResourceError:
                outcomes.append("closed")

        with theirs:
            async with runtime.open_nursery() as nursery:
                nursery.start_soon(wait)
                for _ in range(3):
                    await runtime.checkpoint()
                runtime.notify_closing(ours)
                ours.close()
        assert outcomes == ["closed"]

    run(body)


def test_readiness_and_cancelled_waits(run) -> None:
    async def body() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            await runtime.wait_writable(ours)
            for _ in range(3):
                with runtime.move_on_after(0) as scope:
                    await runtime.wait_readable(ours)
                assert scope.cancelled_caught
            theirs.send(b"x")
            await runtime.wait_readable(ours)
            assert ours.recv(1) == b"x"
            runtime.notify_closing(ours)

    run(body)


def test_a_handoff_carries_its_value_before_and_after_the_wait(run) -> None:
    async def body() -> None:
        early = runtime.new_handoff()
        early.put(1)
        assert await early.wait() == 1
        late = runtime.new_handoff()

        async def put() -> None:
            late.put(2)

        async with runtime.open_nursery() as nursery:
            nursery.start_soon(put)
            assert await late.wait() == 2
        dropped = runtime.new_handoff()
        with runtime.move_on_after(0) as scope:
            await dropped.wait()
        assert scope.cancelled_caught
        dropped.put(3)

    run(body)


def test_names_resolve_and_threads_run(run) -> None:
    async def body() -> None:
        assert ("127.0.0.1", 80) in [where[:2] for _, where in await runtime.getaddrinfo("127.0.0.1", 80)]
        assert await runtime.in_thread(int, "7") == 7
        with pytest.raises(ValueError, match="invalid literal"):
            await runtime.in_thread(int, "x")

    run(body)
