"""Kazoo's client, kept to what we need of it, and the facts about the session that kazoo does not give out."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Create
from kazoo.protocol.states import KazooState, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from cluster.zookeeper import client as ours
from cluster.zookeeper.kazoo_errors import translate
from cluster.zookeeper.kazoo_handler import Completion, DirectHandler
from wire.types import ZkVersion

_RETRY_DELAY_S: Final = 0.05
_RETRY_DELAY_S_MAX: Final = 1.0
_RETRY_JITTER: Final = 0.25


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Kazoo's connection, with two differences.

    It notes the session timeout that ZooKeeper granted: kazoo uses and forgets it. And it tries the socket before it
    asks whether the socket is ready, which is half of the system calls of a thousand small answers.
    """

    granted_ms = 0

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


class KazooSession:
    """One kazoo client, its session, and the conversion of requests and answers."""

    def __init__(self, hosts: str, session_timeout_s: float, on_state: Callable[[KazooState], None]) -> None:
        handler = DirectHandler(connect_timeout_s=session_timeout_s / 3)
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_s,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=_RETRY_DELAY_S,
                max_delay=_RETRY_DELAY_S_MAX,
                max_jitter=_RETRY_JITTER,
                sleep_func=handler.sleep_func,
            ),
        )
        # The attribute is kazoo's own; there is no public way to hand a connection in.
        self._connection = _Connection(self.client, self.client._conn_retry.copy(), logger=self.client.logger)
        self.client._connection = self._connection
        self.client.add_listener(on_state)

    @property
    def identity(self) -> tuple[int, bytes]:
        """The session's id and password; 0 and nothing while not connected."""
        identity: tuple[int, bytes] | None = self.client.client_id
        return identity or (0, b"")

    @property
    def granted_timeout_s(self) -> float:
        """The session timeout that ZooKeeper granted, in seconds."""
        return self._connection.granted_ms / 1000

    @property
    def last_zxid(self) -> int:
        """The newest transaction that an answer has shown."""
        return int(self.client.last_zxid)

    @property
    def state_text(self) -> str:
        """Kazoo's own name of the state, which tells an expired session from a refused one."""
        return str(self.client.client_state)

    def multi(self, operations: Sequence[ours.Operation]) -> Completion:
        """Hand one transaction to kazoo."""
        transaction = TransactionRequest(self.client)
        for operation in operations:
            self._add(transaction, operation)
        completion: Completion = transaction.commit_async()
        return completion

    def _add(self, transaction: TransactionRequest, operation: ours.Operation) -> None:
        match operation:
            case ours.SetData(path, data, expected_version):
                transaction.set_data(path, data, expected_version)
            case ours.CheckVersion(path, expected_version):
                transaction.check(path, expected_version)
            case ours.Delete(path, expected_version):
                transaction.delete(path, expected_version)
            case ours.Create(path, data, ephemeral, sequence):
                # Kazoo's own `create` refuses a node without data, which Kafka tells from one that is empty.
                transaction.operations.append(
                    Create(self.client.chroot + path, data, OPEN_ACL_UNSAFE, ephemeral | sequence << 1)
                )


def convert_stat(stat: ZnodeStat) -> ours.Stat:
    """Return our stat for kazoo's."""
    return ours.Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=ZkVersion(stat.version),
        child_version=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        child_count=stat.numChildren,
        modified_ms=stat.mtime,
    )


def convert_results(results: list[Any]) -> ours.MultiResult:
    """Return our result of a transaction for kazoo's."""
    return ours.MultiResult(tuple(_convert_result(result) for result in results))


def _convert_result(result: Any) -> ours.OperationResult:
    if isinstance(result, ZnodeStat):
        return convert_stat(result)
    if isinstance(result, str):
        return result
    if isinstance(result, BaseException):
        return translate(result)
    return None
