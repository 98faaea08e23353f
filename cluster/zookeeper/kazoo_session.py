"""Kazoo's client, reduced to what we need, and facts about the session that kazoo does not expose."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.protocol.serialization import Create
from kazoo.protocol.states import KazooState, ZnodeStat
from kazoo.retry import KazooRetry

from cluster.zookeeper import client as ours
from cluster.zookeeper.kazoo_connection import access_list, failure_of, use_access
from cluster.zookeeper.kazoo_errors import translate
from cluster.zookeeper.kazoo_handler import Completion, DirectHandler
from security.zookeeper_access import OPEN, ZooKeeperAccess
from wire.types import ZkVersion

_RETRY_DELAY_S: Final = 0.05
_RETRY_DELAY_S_MAX: Final = 1.0
_RETRY_JITTER: Final = 0.25


class KazooSession:
    """One kazoo client, its session, and the conversion of requests and answers."""

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        on_state: Callable[[KazooState], None],
        access: ZooKeeperAccess = OPEN,
    ) -> None:
        handler = DirectHandler(connect_timeout_s=session_timeout_s / 3, access=access)
        self._access = access
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
        self._connection = use_access(self.client, access)
        self.client.add_listener(on_state)

    @property
    def failure(self) -> str | None:
        """Why TLS failed at the last attempt to connect; None if it did not."""
        return failure_of(self.client)

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

    def create(
        self, path: str, data: bytes | None, *, ephemeral: bool, sequence: bool, include_data: bool = False
    ) -> Completion:
        """Have kazoo create a znode, protected as the cluster's znodes are."""
        completion: Completion = self.client.create_async(
            path,
            data,
            acl=access_list(self._access, path),
            ephemeral=ephemeral,
            sequence=sequence,
            include_data=include_data,
        )
        return completion

    def multi(self, operations: Sequence[ours.Operation]) -> Completion:
        """Have kazoo send one transaction."""
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
                # Kazoo's own `create` refuses a node without data, which Kafka distinguishes from an empty one.
                transaction.operations.append(
                    Create(
                        self.client.chroot + path,
                        data,
                        access_list(self._access, path),
                        ephemeral | sequence << 1,
                    )
                )


def convert_stat(stat: ZnodeStat) -> ours.Stat:
    """Convert kazoo's stat to ours."""
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
    """Convert kazoo's result of a transaction to ours."""
    return ours.MultiResult(tuple(_convert_result(result) for result in results))


def _convert_result(result: Any) -> ours.OperationResult:
    if isinstance(result, ZnodeStat):
        return convert_stat(result)
    if isinstance(result, str):
        return result
    if isinstance(result, BaseException):
        return translate(result)
    return None
