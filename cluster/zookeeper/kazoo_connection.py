"""Kazoo's connection to one server, with our changes: TLS, a login by DIGEST-MD5, fewer system calls."""

import logging
import secrets
import select
import socket
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from cluster.zookeeper.protection import Protection, protection_of
from cluster.zookeeper.session_closer import SASL_URI
from cluster.zookeeper.tls_socket import TlsSocket
from security.digest_md5 import DigestMd5Client
from security.errors import AuthenticationError
from security.zookeeper_access import OPEN, ZooKeeperAccess

logger = logging.getLogger(__name__)

_NONCE_BYTES: Final = 24
_LISTS: Final[dict[Protection, list[ACL]]] = {
    Protection.OPEN: OPEN_ACL_UNSAFE,
    Protection.READABLE: CREATOR_ALL_ACL + READ_ACL_UNSAFE,
    Protection.SECRET: CREATOR_ALL_ACL,
}


def access_list(access: ZooKeeperAccess, path: str) -> list[ACL]:
    """Return the access control list for a new znode."""
    return _LISTS[protection_of(path)] if access.protects else OPEN_ACL_UNSAFE


class ServerConnection(ConnectionHandler):  # type: ignore[misc]
    """Kazoo's connection, with three differences.

    It keeps the session timeout that ZooKeeper granted, which kazoo uses and forgets. It reads from the socket before
    it asks whether the socket is ready, which saves half of the system calls of a thousand small answers. And it logs
    in by our own DIGEST-MD5.
    """

    granted_ms = 0
    access = OPEN

    def _read(self, length: int, timeout: float) -> bytes:
        with self._socket_error_handling():
            try:
                begin: bytes = self._socket.recv(length)
            except BlockingIOError:
                begin = b""
            else:
                if not begin:
                    raise ConnectionDropped("socket connection broken")
        rest: bytes = super()._read(length - len(begin), timeout) if len(begin) < length else b""
        return begin + rest

    def _write(self, msg: bytes, timeout: float) -> None:
        with self._socket_error_handling():
            try:
                sent = self._socket.send(msg)
            except BlockingIOError:
                sent = 0
        if sent < len(msg):
            super()._write(msg[sent:], timeout)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            self.granted_ms = answer[0].time_out
        return answer

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        """Log in; kazoo calls it after each connect if `sasl_options` is not None."""
        login = DigestMd5Client(
            self.access.user, self.access.password, SASL_URI, lambda: secrets.token_hex(_NONCE_BYTES)
        )
        response: bytes | None = b""
        xid = 0
        while response is not None:
            xid += 1
            self._submit(SASL(response), timeout, xid)
            header, buffer, offset = self._read_header(timeout)
            if header.err:
                raise AuthFailedError(
                    f"ZooKeeper refuses the user {self.access.user}: {EXCEPTIONS[header.err].__name__}"
                )
            challenge, _ = SASL.deserialize(buffer, offset)
            try:
                response = login.respond(challenge)
            except AuthenticationError as error:
                raise AuthFailedError(str(error)) from None


def use_access(client: KazooClient, access: ZooKeeperAccess) -> ServerConnection:
    """Have a client that is not started yet use our connection."""
    # The attributes are kazoo's own; there is no public way to replace the connection.
    connection = ServerConnection(client, client._conn_retry.copy(), logger=client.logger)
    connection.access = access
    connection.sasl_options = {} if access.user else None
    client._connection = connection
    return connection


class SocketMaker:
    """Makes the sockets of kazoo's handlers, with TLS if the access says so.

    Args:
        access: How ZooKeeper is reached.

    Attributes:
        failure: Why TLS failed last; None before any attempt, and after a success.
    """

    def __init__(self, access: ZooKeeperAccess) -> None:
        self._context = access.context()
        self.failure: str | None = None

    def secure(self, sock: socket.socket, host: str, timeout_s: float) -> "socket.socket | TlsSocket":
        """Return a connected socket with TLS over it, if TLS is configured."""
        if self._context is None:
            return sock
        try:
            secured = TlsSocket(sock, self._context, host, timeout_s)
        except AuthenticationError as error:
            if str(error) != self.failure:
                logger.warning("TLS with ZooKeeper at %s fails: %s", host, error)
            self.failure = str(error)
            raise
        self.failure = None
        return secured


def wait_ready(
    readers: Sequence[Any], writers: Sequence[Any], timeout: float | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait until a descriptor is ready, or a socket under TLS has something to read, with one system call."""
    pending = [each for each in readers if isinstance(each, TlsSocket) and each.pending()]
    if pending:
        return pending, [], []
    poll = select.poll()
    by_descriptor = {}
    for reader in readers:
        by_descriptor[reader.fileno()] = reader
        poll.register(reader, select.POLLIN)
    for writer in writers:
        by_descriptor[writer.fileno()] = writer
        poll.register(writer, select.POLLOUT)
    while True:
        ready = poll.poll(None if timeout is None else max(0, int(timeout * 1000)))
        found = [by_descriptor[descriptor] for descriptor, _ in ready]
        readable = [each for each in found if each in readers]
        # The input may be one of TLS's own messages: kazoo would wait for data after it, and send nothing meanwhile.
        readable = [each for each in readable if not isinstance(each, TlsSocket) or each.advance()]
        writable = [each for each in found if each in writers]
        if readable or writable or not ready:
            return readable, writable, []


class BlockingHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Kazoo's own threads, with our sockets: for commands, which make one request after the other."""

    def __init__(self, access: ZooKeeperAccess) -> None:
        super().__init__()
        self.sockets = SocketMaker(access)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Connect to a server."""
        sock = super().create_connection(*args, **kwargs)
        return self.sockets.secure(sock, kwargs["hostname"], kwargs["timeout"])

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until a descriptor is ready."""
        return wait_ready(readers, writers, timeout)


def blocking_client(hosts: str, timeout_s: float, access: ZooKeeperAccess) -> KazooClient:
    """Return a client whose calls wait for their answers; the caller starts it.

    Its own `create` protects nothing: give it an `access_list`.

    Args:
        hosts: As in ``zookeeper.connect``.
        timeout_s: The session timeout.
        access: How ZooKeeper is reached.

    Raises:
        SecurityConfigError: the access cannot be used.
    """
    client = KazooClient(hosts=hosts, timeout=timeout_s, handler=BlockingHandler(access))
    use_access(client, access)
    return client


def create_node(
    client: KazooClient, access: ZooKeeperAccess, path: str, data: bytes, *, sequence: bool = False
) -> None:
    """Create a znode, and the parents that are missing, each protected as its own path has it.

    Raises:
        KazooException: ZooKeeper refuses; NodeExistsError if the znode exists.
    """
    parts = path.split("/")
    for depth in range(2, len(parts)):
        parent = "/".join(parts[:depth])
        client.ensure_path(parent, acl=access_list(access, parent))
    client.create(path, data, acl=access_list(access, path), sequence=sequence)


def failure_of(client: KazooClient) -> str | None:
    """Return why TLS failed last, for a client made here."""
    handler = client.handler
    sockets: SocketMaker | None = getattr(handler, "sockets", None)
    return None if sockets is None else sockets.failure
