"""Closing another process's ZooKeeper session, with nothing but a socket.

For those that outlive a broker that died without closing its session: the guardian at once, the broker itself
at its next start. ZooKeeper then deletes the session's ephemeral nodes in a moment instead of after a
timeout. The module imports neither kazoo nor trio: the guardian must stay small.

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

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from timing.polling import pause_between_looks

_CONNECT: Final = struct.Struct(">iqiqi")
_CONNECTED: Final = struct.Struct(">iiq")
_CLOSE: Final = struct.pack(">iii", 8, 1, -11)
_LENGTH: Final = struct.Struct(">i")
_ATTEMPT_S: Final = 2.0
_PAUSE_S: Final = 0.1
_REPLY_BYTES_MAX: Final = 1 << 20
_DEFAULT_PORT: Final = 2181


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What it takes to join or close a session.

    Attributes:
        hosts: The ensemble, as in `zookeeper.connect`; a chroot behind it is ignored.
        session_id: As ZooKeeper gave it, signed.
        password: 16 bytes. A secret.
        timeout_s: The session timeout that was granted: past it ZooKeeper has closed the session by itself.
    """

    hosts: str
    session_id: int
    password: bytes
    timeout_s: float


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

    Blocks: call it from a thread, or where nothing else runs. Closing a session that is gone is no error.

    Args:
        key: Which session.
        monotonic: A clock that only goes forward, in seconds.

    Returns:
        Whether ZooKeeper said that the session is closed; ``False`` where none of it answered in time.
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
        struct.error: it talks nonsense.
    """
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = _CONNECT.pack(0, 0, int(key.timeout_s * 1000), key.session_id, len(key.password))
        body += key.password + b"\0"
        connection.sendall(_LENGTH.pack(len(body)) + body)
        _, granted_ms, session_id = _CONNECTED.unpack_from(_receive_frame(connection))
        if granted_ms <= 0 or session_id != key.session_id:
            return
        connection.sendall(_CLOSE)
        _receive_frame(connection)


def _receive_frame(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if not 0 <= length <= _REPLY_BYTES_MAX:
        raise struct.error(f"a reply of {length} bytes")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = connection.recv(count)
        if not part:
            raise EOFError("the server hung up")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
