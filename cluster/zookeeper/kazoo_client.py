"""The real ZooKeeper session: kazoo on a thread of its own, awaited from trio.

- A watch that kazoo drops at a disconnection is called with `WatchKind.DROPPED`.
- An expired session shuts the gate before kazoo begins the next one: its thread waits for that. What was
  under way fails, and nothing is sent in the new session before `renew_session`.
- A probe, each sixth of the session timeout, keeps the clock by which a controller fences itself. It is a
  `sync`, which goes through the leader, and not an `exists`, which a follower cut off from its leader would
  answer.

While trio's loop is saturated, it shares the interpreter with kazoo's thread: a process that must avoid stalls sets
`sys.setswitchinterval(0.0005)`.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import trio
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent, ZnodeStat

from cluster.zookeeper.client import (
    ConnectionLossError,
    Create,
    MultiResult,
    NoAuthError,
    NoNodeError,
    Operation,
    SessionEvent,
    SessionExpiredError,
    SessionListener,
    SetData,
    Stat,
    Watcher,
    WatchEvent,
    WatchKind,
    ZooKeeperError,
)
from cluster.zookeeper.kazoo_bridge import KazooBridge
from cluster.zookeeper.kazoo_connection import access_list, blocking_client, failure_of
from cluster.zookeeper.kazoo_errors import translate
from cluster.zookeeper.kazoo_handler import Completion
from cluster.zookeeper.kazoo_session import KazooSession, convert_results, convert_stat
from cluster.zookeeper.parents import create_parents
from cluster.zookeeper.session_closer import SessionKey
from cluster.zookeeper.session_liveness import SessionLiveness
from cluster.zookeeper.write_sizes import DEFAULT_WRITE_BYTES_MAX, check_write_size
from security.zookeeper_access import OPEN, ZooKeeperAccess
from wire.types import MonotonicSeconds, ZkVersion

logger = logging.getLogger(__name__)

_WATCH_KINDS: Final = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}


class KazooZooKeeper:
    """A session with a real ensemble: an implementation of `cluster.zookeeper.client.ZooKeeper`.

    Examples:
        >>> async with trio.open_nursery() as nursery:  # doctest: +SKIP
        ...     zookeeper = KazooZooKeeper("localhost:2181", 18.0, clock.monotonic)
        ...     await nursery.start(zookeeper.run)
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        monotonic: Callable[[], MonotonicSeconds],
        *,
        connect_timeout_s: float = 18.0,
        boottime: Callable[[], float] | None = None,
        write_bytes_max: int = DEFAULT_WRITE_BYTES_MAX,
        access: ZooKeeperAccess = OPEN,
    ) -> None:
        """Prepare a session; `run` connects it.

        Args:
            hosts: As in `zookeeper.connect`: `host:port,host:port/chroot`.
            session_timeout_s: The session timeout to ask for; ZooKeeper may grant another.
            monotonic: The clock whose time is passed to `session_is_live`.
            connect_timeout_s: How long `run` waits for the first connection.
            boottime: A clock that goes on while the machine is suspended, if there is one.
            write_bytes_max: The largest write that the servers accept, in bytes.
            access: How ZooKeeper is reached, and how znodes are protected.
        """
        self._access = access
        self._hosts = hosts
        self._monotonic = monotonic
        self._connect_timeout_s = connect_timeout_s
        self._bridge = KazooBridge()
        self._session = KazooSession(hosts, session_timeout_s, self._on_state, access)
        self._liveness = SessionLiveness(session_timeout_s, boottime)
        self._write_bytes_max = write_bytes_max
        self._listeners: list[SessionListener] = []
        self._session_id = 0
        self._session_password = b""
        self._connected = trio.Event()
        self._probe_soon = trio.Event()
        self._ended = trio.Event()
        self._end: ZooKeeperError | None = None
        self._stopping = False

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_password(self) -> bytes:
        return self._session_password

    @property
    def session_timeout_s(self) -> float:
        return self._liveness.timeout_s

    @property
    def write_bytes_max(self) -> int:
        return self._write_bytes_max

    @property
    def session_key(self) -> SessionKey:
        """The key with which the guardian and the session record close this session."""
        return SessionKey(
            self._hosts, self._session_id, self._session_password, self.session_timeout_s, self._access
        )

    @property
    def last_zxid(self) -> int:
        return self._session.last_zxid

    def session_is_live(self, now: MonotonicSeconds) -> bool:
        return self._liveness.is_live(now)

    def subscribe(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, report that as started, and keep the session until cancelled; then close it.

        Raises:
            ConnectionLossError: no connection was made in time.
            NoAuthError: the ensemble refused our credentials.
            ZooKeeperError: kazoo gave up.
        """
        self._bridge.attach()
        try:
            async with trio.open_nursery() as nursery:
                await trio.to_thread.run_sync(
                    _ensure_chroot, self._hosts, self._connect_timeout_s, self._access, abandon_on_cancel=True
                )
                self._session.client.start_async()
                nursery.start_soon(self._raise_end)
                with trio.move_on_after(self._connect_timeout_s):
                    await self._connected.wait()
                if not self._connected.is_set():
                    raise ConnectionLossError(_unreachable(self._hosts, self._session.failure))
                self._bridge.open()
                await self._probe()
                nursery.start_soon(self._keep_probing)
                task_status.started()
        finally:
            self._stopping = True
            self._liveness.lost()
            self._bridge.shut(SessionExpiredError("the session was closed"))
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._stop)

    async def renew_session(self) -> None:
        if self._bridge.is_open:
            await trio.lowlevel.checkpoint()
            return
        while not self._bridge.is_open:
            if self._end is not None:
                raise self._end
            await self._connected.wait()
            if await self._probe():
                self._bridge.open()

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat]:
        data, stat = await self._bridge.read(
            lambda: self._session.client.get_async(path, watch=self._watch(path, watch))
        )
        return data or b"", convert_stat(stat)

    async def get_many(
        self, paths: Sequence[str], watch: Watcher | None = None
    ) -> list[tuple[bytes, Stat] | None]:
        client = self._session.client

        def submit(index: int) -> Completion:
            path = paths[index]
            completion: Completion = client.get_async(path, watch=self._watch(path, watch))
            return completion

        answers = await self._bridge.call_many(submit, len(paths), repeat_lost=True)
        return [
            None if _is_missing(answer) else (answer[0] or b"", convert_stat(answer[1])) for answer in answers
        ]

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        stat: ZnodeStat | None = await self._bridge.read(
            lambda: self._session.client.exists_async(path, watch=self._watch(path, watch))
        )
        return None if stat is None else convert_stat(stat)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        names: list[str] = await self._bridge.read(
            lambda: self._session.client.get_children_async(path, watch=self._watch(path, watch))
        )
        return sorted(names)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        client = self._session.client

        def submit(index: int) -> Completion:
            completion: Completion = client.get_children_async(paths[index])
            return completion

        answers = await self._bridge.call_many(submit, len(paths), repeat_lost=True)
        return [None if _is_missing(answer) else sorted(answer) for answer in answers]

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        self._check_size([Create(path, data)])

        def submit() -> Completion:
            return self._session.create(path, data, ephemeral=ephemeral, sequence=sequence)

        try:
            created: str = await self._bridge.call(submit)
        except NoNodeError:
            if not make_parents:
                raise
            await create_parents(self, path)
            created = await self._bridge.call(submit)
        return created

    async def create_with_stat(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        self._check_size([Create(path, data)])
        created, stat = await self._bridge.call(
            lambda: self._session.create(
                path, data, ephemeral=ephemeral, sequence=sequence, include_data=True
            )
        )
        return created, convert_stat(stat)

    async def set(self, path: str, data: bytes, expected_version: ZkVersion) -> Stat:
        self._check_size([SetData(path, data, expected_version)])
        return convert_stat(
            await self._bridge.call(lambda: self._session.client.set_async(path, data, expected_version))
        )

    async def delete(self, path: str, expected_version: ZkVersion) -> None:
        await self._bridge.call(lambda: self._session.client.delete_async(path, expected_version))

    async def multi(self, operations: Sequence[Operation]) -> MultiResult:
        self._check_size(operations)
        return convert_results(await self._bridge.call(lambda: self._session.multi(operations)))

    async def multi_many(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[MultiResult | ConnectionLossError]:
        for operations in transactions:
            self._check_size(operations)

        def submit(index: int) -> Completion:
            return self._session.multi(transactions[index])

        answers = await self._bridge.call_many(submit, len(transactions), repeat_lost=False)
        return [_transaction_result(answer) for answer in answers]

    def _check_size(self, operations: Sequence[Operation]) -> None:
        check_write_size(operations, self._write_bytes_max)

    def _watch(self, path: str, watch: Watcher | None) -> Callable[[WatchedEvent], None] | None:
        """Wrap a watch for kazoo, whose thread only posts the event."""
        if watch is None:
            return None

        def fired(event: WatchedEvent) -> None:
            kind = _WATCH_KINDS.get(event.type, WatchKind.DROPPED)
            self._bridge.post(partial(watch, WatchEvent(kind, path)))

        return fired

    # On kazoo's thread

    def _on_state(self, state: KazooState) -> None:
        if self._stopping:
            return
        if state == KazooState.CONNECTED:
            identity = self._session.identity
            self._bridge.post(partial(self._on_connected, *identity, self._session.granted_timeout_s))
        elif state == KazooState.SUSPENDED:
            self._bridge.post(self._on_suspended)
        else:
            # Kazoo's thread must not go on to a new session before the gate is shut.
            self._bridge.post_and_wait(
                partial(self._on_lost, self._session.state_text), self._liveness.timeout_s
            )

    # On trio's thread

    def _on_connected(self, session_id: int, password: bytes, timeout_s: float) -> None:
        same = session_id == self._session_id
        self._session_id = session_id
        self._session_password = password
        self._liveness.timeout_s = timeout_s
        self._connected.set()
        self._probe_soon.set()
        logger.info(
            "ZooKeeper session 0x%x %s, timeout %.1f s",
            session_id & 0xFFFFFFFFFFFFFFFF,
            "reconnected" if same else "begun",
            timeout_s,
        )
        self._tell(SessionEvent.RECONNECTED if same else SessionEvent.CONNECTED)

    def _on_suspended(self) -> None:
        logger.debug("the connection to ZooKeeper is gone; the session may live on")
        self._disconnected()
        self._tell(SessionEvent.SUSPENDED)

    def _on_lost(self, state: str) -> None:
        logger.error("ZooKeeper session 0x%x is over: %s", self._session_id & 0xFFFFFFFFFFFFFFFF, state)
        self._disconnected()
        self._liveness.lost()
        self._bridge.shut(SessionExpiredError(f"session 0x{self._session_id & 0xFFFFFFFFFFFFFFFF:x} expired"))
        if state == "AUTH_FAILED":
            self._end = NoAuthError("ZooKeeper refused our credentials")
        elif state == "CLOSED":
            self._end = ZooKeeperError("kazoo gave the connection up")
        if self._end is not None:
            self._ended.set()
        self._tell(SessionEvent.EXPIRED)

    def _disconnected(self) -> None:
        # A lost session was disconnected before: tasks that have waited since then wait for this very event.
        if self._connected.is_set():
            self._connected = trio.Event()

    def _tell(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            listener(event)

    async def _raise_end(self) -> None:
        await self._ended.wait()
        if self._end is not None:
            raise self._end

    async def _keep_probing(self) -> None:
        while True:
            self._probe_soon = trio.Event()
            # After an answer that came too late to prove anything, ask again at once.
            if await self._probe() and self.session_is_live(self._monotonic()):
                with trio.move_on_after(self._liveness.probe_interval_s):
                    await self._probe_soon.wait()
            elif not self._connected.is_set():
                await self._connected.wait()

    async def _probe(self) -> bool:
        """Send a probe to ZooKeeper; return whether an answer came."""
        sent_at = self._monotonic()
        skew_s = self._liveness.skew_s(sent_at)
        session_id = self._session_id
        try:
            await self._bridge.call(lambda: self._session.client.sync_async("/"), through_gate=False)
        except ZooKeeperError:
            return False
        if session_id == self._session_id:
            self._liveness.answered(sent_at, skew_s)
        return True

    def _stop(self) -> None:
        """Close the session and end kazoo's thread; blocks."""
        self._session.client.stop()
        self._session.client.close()


def _is_missing(answer: Any) -> bool:
    """Return whether a read's answer is that there is no node.

    Raises:
        ZooKeeperError: the answer is another error.
    """
    if isinstance(answer, NoNodeError):
        return True
    if isinstance(answer, ZooKeeperError):
        raise answer
    return False


def _transaction_result(answer: Any) -> MultiResult | ConnectionLossError:
    """Return a transaction's result, or the error that says that it is unknown.

    Raises:
        ZooKeeperError: the whole transaction met another error.
    """
    if isinstance(answer, ConnectionLossError):
        return answer
    if isinstance(answer, ZooKeeperError):
        raise answer
    return convert_results(answer)


def _unreachable(hosts: str, failure: str | None) -> str:
    return f"no connection to ZooKeeper at {hosts}" + ("" if failure is None else f": {failure}")


def _ensure_chroot(hosts: str, timeout_s: float, access: ZooKeeperAccess) -> None:
    """Create the chroot that `zookeeper.connect` names, if it names one; blocks.

    Raises:
        ConnectionLossError: no connection was made in time.
        ZooKeeperError: the path could not be created.
    """
    addresses, _, chroot = hosts.partition("/")
    if not chroot:
        return
    client = blocking_client(addresses, timeout_s, access)
    try:
        client.start(timeout=timeout_s)
        client.ensure_path(f"/{chroot}", acl=access_list(access, f"/{chroot}"))
    except KazooTimeoutError:
        raise ConnectionLossError(_unreachable(addresses, failure_of(client))) from None
    except KazooException as error:
        raise translate(error) from error
    finally:
        client.stop()
        client.close()
