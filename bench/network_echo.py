"""Frames a second through our connection loop, beside the same echo over trio's own streams.

    python bench/network_echo.py [--seconds 2] [--connections 4]

Each server runs in a process of its own and answers every frame with eight bytes, as an acknowledgement would be.
The client keeps a window of frames in flight on each connection. Reported are frames a second, and the server's
CPU seconds per million frames, which is the number to watch: the client shares the machine.
"""

import argparse
import multiprocessing
import os
import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe

import trio

from cluster.network.endpoints import Endpoint
from cluster.network.listener import Listeners
from cluster.network.response_slot import ResponseSlot

ANSWER = struct.pack(">ii", 4, 0)


def serve_ours(pipe: Pipe) -> None:
    """Echo through `Listeners`."""

    def dispatch(_frame: memoryview, slot: ResponseSlot) -> None:
        slot.complete(ANSWER)

    async def main() -> None:
        listeners = Listeners([Endpoint("A", "127.0.0.1", 0)], dispatch)
        async with trio.open_nursery() as nursery:
            await nursery.start(listeners.serve)
            pipe.send(listeners.bound_port("A"))
            await wait_for_end(pipe)
            nursery.cancel_scope.cancel()

    trio.run(main)


def serve_streams(pipe: Pipe) -> None:
    """Echo through `trio.SocketStream`, in the most obvious way."""

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await answer(stream)
        except trio.BrokenResourceError:
            pass  # the client has closed

    async def answer(stream: trio.SocketStream) -> None:
        buffer = bytearray()
        async for data in stream:
            buffer += data
            while len(buffer) >= 4:
                end = 4 + int.from_bytes(buffer[:4], "big")
                if len(buffer) < end:
                    break
                del buffer[:end]
                await stream.send_all(ANSWER)

    async def main() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            pipe.send(listeners[0].socket.getsockname()[1])
            await wait_for_end(pipe)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def wait_for_end(pipe: Pipe) -> None:
    """Send the CPU time at each message from the parent, until it sends None."""
    while True:
        await trio.lowlevel.wait_readable(pipe.fileno())
        if pipe.recv() is None:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(used.ru_utime + used.ru_stime)


def drive(port: int, connections: int, frame_size: int, window: int, seconds: float) -> int:
    """Keep `window` frames in flight on each connection; return how many were answered."""
    frame = struct.pack(">i", frame_size) + os.urandom(frame_size)
    answered = 0
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(frame * window)
            selector.register(sock, selectors.EVENT_READ, [0])
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in selector.select():
                sock = key.fileobj  # type: ignore[assignment]
                partial = key.data
                partial[0] += len(sock.recv(1 << 16))
                count, partial[0] = divmod(partial[0], len(ANSWER))
                answered += count
                if count:
                    sock.sendall(frame * count)
        for key in tuple(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return answered


def measure(
    serve: Callable[[Pipe], None], connections: int, frame_size: int, window: int, seconds: float
) -> tuple[float, float]:
    """Return frames a second, and CPU seconds per million frames."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(theirs,))
    process.start()
    port = ours.recv()
    drive(port, connections, frame_size, window, 0.2)
    ours.send("cpu")
    before = ours.recv()
    answered = drive(port, connections, frame_size, window, seconds)
    ours.send("cpu")
    cpu = ours.recv() - before
    ours.send(None)
    process.join()
    return answered / seconds, cpu / answered * 1e6


def main() -> None:
    """Run every load on both, alternating, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=4)
    arguments = parser.parse_args()
    print(
        f"{'frame':>9} {'window':>6}   {'ours/s':>10} {'CPU s/M':>8}   {'streams/s':>10} {'CPU s/M':>8}   ratio"
    )
    for frame_size, window in ((100, 1), (100, 32), (16_384, 1), (16_384, 5), (1_000_000, 2)):
        load = (arguments.connections, frame_size, window, arguments.seconds)
        rate, cpu = measure(serve_ours, *load)
        other_rate, other_cpu = measure(serve_streams, *load)
        print(
            f"{frame_size:>9} {window:>6}   {rate:>10,.0f} {cpu:>8.2f}   {other_rate:>10,.0f} {other_cpu:>8.2f}"
            f"   {rate / other_rate:.2f} x"
        )


if __name__ == "__main__":
    main()
