"""Closing another process's ZooKeeper session, with nothing but a socket.

For use after a broker died without closing its session: by the guardian at once, by the broker itself at its next
start. ZooKeeper then deletes the session's ephemeral nodes at once instead of after a timeout. The module imports
neither kazoo nor trio: the guardian must stay small.

    connect request                             connect response
    +---------------------+-------+            +---------------------+-------+
    | length              | int32 |            | length              | int32 |
    | protocol version 0  | int32 |            | protocol version    | int32 |
    | last zxid seen      | int64 |            | session timeout ms  | int32 |  0: no such session, or wrong password
    | session timeout ms  | int32 |            | session id          | int64 |
    | session id          | int64 |            | password            | bytes |
    | password            | bytes |            | read only           | bool  |
    | read only           | bool  |            +---------------------+-------+
    +---------------------+-------+
    then the request (xid int32, type int32 = -11: close session) and its reply (xid int32, zxid int64, error
    int32)
"""

import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from security.zookeeper_access import OPEN, ZooKeeperAccess
from timing.polling import pause_between_looks

if TYPE_CHECKING:
    from cluster.zookeeper.tls_socket import TlsSocket

_CONNECT: Final = struct.Struct(">iqiqi")
_CONNECTED: Final = struct.Struct(">iiq")
_CLOSE_XID: Final = 1_000_000
_CLOSE: Final = struct.pack(">iii", 8, _CLOSE_XID, -11)
_REQUEST: Final = struct.Struct(">ii")
_REPLY: Final = struct.Struct(">iqi")
_SASL: Final = 102
_NONCE_BYTES: Final = 24
SASL_URI: Final = "zookeeper/zk-sasl-md5"
"""The service and host names of all ZooKeeper servers in DIGEST-MD5, whatever their real names."""
_LENGTH: Final = struct.Struct(">i")
_ATTEMPT_S: Final = 2.0
_PAUSE_S: Final = 0.1
_REPLY_BYTES_MAX: Final = 1 << 20
_DEFAULT_PORT: Final = 2181


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The data needed to join or close a session.

    Attributes:
        hosts: The ensemble, as in `zookeeper.connect`; a chroot behind it is ignored.
        session_id: As ZooKeeper assigned it, signed.
        password: 16 bytes. A secret.
        timeout_s: The session timeout that was granted: after that time ZooKeeper has closed the session by itself.
        access: How ZooKeeper is reached. It has secrets, too, and stays in this process and its guardian.
    """

    hosts: str
    session_id: int
    password: bytes = field(repr=False)
    timeout_s: float
    access: ZooKeeperAccess = field(default=OPEN, compare=False)


def parse_hosts(hosts: str) -> list[tuple[str, int]]:
    """Split `host:port,[ipv6]:port,host/chroot` into addresses.

    Raises:
        ValueError: a port is not a number.
    """
    addresses = []
    for part in hosts.partition("/")[0].split(","):
        text = part.strip()
        if not text:
            continue
        host, separator, port = text.rpartition(":")
        if not separator or text.endswith("]"):
            host, port = text, str(_DEFAULT_PORT)
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def close_session(key: SessionKey, monotonic: Callable[[], float]) -> bool:
    """Close a session, trying its hosts in turn until one answers or the session must have timed out.

    Blocks: call it from a thread, or when nothing else runs. To close a session that is gone is not an error.

    Args:
        key: Which session.
        monotonic: A clock that only goes forward, in seconds.

    Returns:
        Whether ZooKeeper confirmed that the session is closed; ``False`` if no server answered in time.
    """
    deadline = monotonic() + key.timeout_s
    addresses = parse_hosts(key.hosts)
    while addresses:
        for address in addresses:
            remaining = deadline - monotonic()
            if remaining <= 0:
                return False
            try:
                _close_at(address, key, min(_ATTEMPT_S, remaining))
            except (OSError, EOFError, struct.error):
                continue
            return True
        pause_between_looks(_PAUSE_S)
    return False


def _close_at(address: tuple[str, int], key: SessionKey, timeout_s: float) -> None:
    """Close a session through one server.

    Raises:
        OSError: the server cannot be reached.
        EOFError: it hung up, as a server without a quorum does.
        struct.error: its answer is malformed.
    """
    with contextlib.closing(_connect(address, key.access, timeout_s)) as connection:
        body = _CONNECT.pack(0, 0, int(key.timeout_s * 1000), key.session_id, len(key.password))
        body += key.password + b"\0"
        _send(connection, _LENGTH.pack(len(body)) + body)
        _, granted_ms, session_id = _CONNECTED.unpack_from(_receive_frame(connection))
        if granted_ms <= 0 or session_id != key.session_id:
            return
        if key.access.user:
            _log_in(connection, key.access)
        _send(connection, _CLOSE)
        _receive_frame(connection)


def _connect(
    address: tuple[str, int], access: ZooKeeperAccess, timeout_s: float
) -> "socket.socket | TlsSocket":
    """Connect to a server, with TLS if the access says so.

    Raises:
        OSError: the server cannot be reached, or TLS fails.
    """
    connection = socket.create_connection(address, timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if access.tls is None:
        return connection
    from cluster.zookeeper.tls_socket import (
        TlsSocket,
    )  # only where it is needed: the guardian must stay small

    context = access.context()
    assert context is not None
    return TlsSocket(connection, context, address[0], timeout_s)


def _log_in(connection: "socket.socket | TlsSocket", access: ZooKeeperAccess) -> None:
    """Log in by DIGEST-MD5: an ensemble can require it for every request, even to close a session.

    Raises:
        OSError: ZooKeeper refuses the login.
    """
    import secrets

    from security.digest_md5 import DigestMd5Client
    from security.errors import AuthenticationError

    login = DigestMd5Client(access.user, access.password, SASL_URI, lambda: secrets.token_hex(_NONCE_BYTES))
    response: bytes | None = b""
    xid = 1
    while response is not None:
        request = _REQUEST.pack(xid, _SASL) + _LENGTH.pack(len(response)) + response
        _send(connection, _LENGTH.pack(len(request)) + request)
        reply = _receive_frame(connection)
        _, _, error = _REPLY.unpack_from(reply)
        if error:
            raise AuthenticationError(f"ZooKeeper refuses the user {access.user} ({error})")
        (length,) = _LENGTH.unpack_from(reply, _REPLY.size)
        begin = _REPLY.size + _LENGTH.size
        response = login.respond(reply[begin : begin + max(0, length)])
        xid += 1


def _send(connection: "socket.socket | TlsSocket", data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[connection.send(bytes(view)) :]


def _receive_frame(connection: "socket.socket | TlsSocket") -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if not 0 <= length <= _REPLY_BYTES_MAX:
        raise struct.error(f"a reply of {length} bytes")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: "socket.socket | TlsSocket", count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = connection.recv(count)
        if not part:
            raise EOFError("the server hung up")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
