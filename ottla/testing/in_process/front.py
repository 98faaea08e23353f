"""The port that clients know a broker by, which forwards to the port of the broker's present life.

The bytes of clients pass through here, so that a paused or cut broker looks like one: connections stay, and nothing
moves.
"""

import socket
from typing import Final

import trio

from ottla.testing.in_process.gates import CLIENTS, Gates

BUFFER_BYTES: Final = 256 * 1024
HOST: Final = "127.0.0.1"
_BACKLOG: Final = 128


class Front:
    """A broker's public port.

    Args:
        gates: What is cut.
        end: The broker's name among the gates' ends.
        port: The port; 0 takes a free one, which it keeps from then on.
    """

    def __init__(self, gates: Gates, end: str, port: int) -> None:
        self._gates = gates
        self._end = end
        self._wanted = port
        self._socket: socket.socket | None = None
        self._connections: set[trio.CancelScope] = set()

    @property
    def port(self) -> int:
        """The port, once it has been bound."""
        return self._wanted

    def bind(self) -> None:
        """Bind the port, if it is not bound yet. Connections wait in its backlog until `serve`.

        Raises:
            OSError: it is taken.
        """
        if self._socket is not None:
            return
        sock = socket.socket()
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, self._wanted))
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            reason = (error.strerror or str(error)).lower()
            raise OSError(error.errno, f"{HOST}:{self._wanted}: {reason}") from error
        self._wanted = sock.getsockname()[1]
        self._socket = sock

    def close(self) -> None:
        """Release the port; may be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def serve(self, behind: int) -> None:
        """Accept clients for the broker on a port behind this one, until cancelled; then all connections break.

        Raises:
            OSError: the port cannot be taken.
        """
        self.bind()
        listening = self._socket
        assert listening is not None
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    await trio.lowlevel.wait_readable(listening)
                    await self._gates.passable(CLIENTS, self._end)
                    try:
                        client, _ = listening.accept()
                    except OSError:
                        continue  # it left before its turn
                    client.setblocking(False)
                    nursery.start_soon(self._relay, client, behind)
        finally:
            self.close()

    def drop_clients(self) -> None:
        """Break all connections of clients."""
        for scope in list(self._connections):
            scope.cancel()

    async def _relay(self, client: socket.socket, behind: int) -> None:
        broker = socket.socket()
        with trio.CancelScope() as scope, client, broker:
            self._connections.add(scope)
            try:
                broker.setblocking(False)
                for sock in (client, broker):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await _connect(broker, behind)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, client, broker, scope)
                    nursery.start_soon(self._pump, broker, client, scope)
            except* OSError:
                pass  # one side is gone, and the other learns of it from the close
            finally:
                self._connections.discard(scope)

    async def _pump(self, source: socket.socket, target: socket.socket, scope: trio.CancelScope) -> None:
        """Carry one direction; the end of it ends both, as brokers and clients never half-close."""
        buffer = memoryview(bytearray(BUFFER_BYTES))
        while True:
            await trio.lowlevel.wait_readable(source)
            await self._gates.passable(CLIENTS, self._end)
            try:
                count = source.recv_into(buffer)
            except BlockingIOError:
                continue
            if count == 0:
                scope.cancel()
                return
            left = buffer[:count]
            while left:
                try:
                    left = left[target.send(left) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(target)


async def _connect(sock: socket.socket, port: int) -> None:
    try:
        sock.connect((HOST, port))
    except BlockingIOError:
        await trio.lowlevel.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "the broker is not there") from None
