"""A fake ZooKeeper: an ensemble as one object, and sessions with it whose connections tests cut at will.

Everything runs in the caller's trio loop, takes time only where `FakeEnsemble.delay` says so, and is
deterministic. The fake and the real session pass the same contract suite.

How faults differ, for a `FakeZooKeeper` named ``zookeeper``:

- ``zookeeper.disconnect()``: the client notices, its watches are dropped, its writes end in `ConnectionLossError`.
- ``zookeeper.disconnect(silently=True)``: the client notices nothing, as when its host was cut off or it was
  stopped: its calls hang, and only `session_is_live` shows it.
- ``zookeeper.reconnect()``: the same session, or, if the ensemble has expired it, the news of that and a new
  one.
- ``ensemble.expire(zookeeper.session_id)``: its ephemerals go; a connected session learns it at once.
- ``zookeeper.lose_next_write(done=True)``: one write is done, or not, and its answer is lost with the
  connection.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import trio

from cluster.zookeeper.client import (
    ConnectionLossError,
    Create,
    Delete,
    MultiResult,
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
)
from cluster.zookeeper.parents import create_parents
from cluster.zookeeper.session_closer import SessionKey
from cluster.zookeeper.write_sizes import check_write_size
from simulation.zookeeper_ensemble import FakeEnsemble
from simulation.zookeeper_tree import Change
from wire.types import MonotonicSeconds, ZkVersion

__all__ = ["FakeEnsemble", "FakeZooKeeper"]

_Answer = TypeVar("_Answer")
_WatchKey = tuple[bool, str]  # whether it is about the children, and the path


def _no_time() -> MonotonicSeconds:
    return MonotonicSeconds(0.0)


class FakeZooKeeper:
    """A session with a `FakeEnsemble`: an implementation of `cluster.zookeeper.client.ZooKeeper`."""

    def __init__(
        self,
        ensemble: FakeEnsemble,
        session_timeout_s: float = 18.0,
        monotonic: Callable[[], MonotonicSeconds] = _no_time,
    ) -> None:
        """Prepare a session; `connect`, or `run`, begins it.

        Args:
            ensemble: What to connect to.
            session_timeout_s: Granted as it is.
            monotonic: The clock that `session_is_live` reads; the default stands still.
        """
        self._ensemble = ensemble
        self._timeout_s = session_timeout_s
        self._monotonic = monotonic
        self._session_id = 0
        self._password = b""
        self._listeners: list[SessionListener] = []
        self._watches: dict[_WatchKey, list[Watcher]] = {}
        self._connection = 0  # counts connections, so that a request knows whether its own is still open
        self._connected = trio.Event()
        self._told_connected = False
        self._noticed = trio.Event()
        self._shut: SessionExpiredError | None = SessionExpiredError("no session yet")
        self._heard_at: MonotonicSeconds | None = None
        self._lose_next: list[bool] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_password(self) -> bytes:
        return self._password

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    @property
    def session_key(self) -> SessionKey:
        """What the session record needs to close this session."""
        return SessionKey("fake:2181", self._session_id, self._password, self._timeout_s)

    @property
    def is_connected(self) -> bool:
        """Whether requests reach the ensemble."""
        return self._connected.is_set()

    @property
    def last_zxid(self) -> int:
        return self._ensemble.tree.zxid

    def session_is_live(self, now: MonotonicSeconds) -> bool:
        if self.is_connected:
            return self._ensemble.is_alive(self._session_id)
        return self._heard_at is not None and now - self._heard_at < self._timeout_s

    def subscribe(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, report that as started, and keep the session until cancelled; then close it."""
        self.connect()
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            self.close()

    # Faults, and what ends them

    def connect(self) -> None:
        """Begin the first session."""
        self._begin_session()
        self._shut = None

    def close(self) -> None:
        """End the session as a client does, and drop the connection."""
        self._shut = SessionExpiredError("the session was closed")
        self._ensemble.leave(self._session_id)
        self._drop_connection()
        self._heard_at = None

    def abandon(self) -> None:
        """Die without notice, as a killed process does: the session waits for its timeout."""
        self._listeners.clear()
        self._watches.clear()
        self._drop_connection()

    def disconnect(self, *, silently: bool = False) -> None:
        """Cut the connection.

        Args:
            silently: The client does not notice: no event, and its watches fire only when it reconnects.
        """
        self._drop_connection()
        if self._told_connected and not silently:
            self._notice_disconnection()

    def reconnect(self) -> None:
        """Let the client reach the ensemble again; no change where it does."""
        if self.is_connected:
            return
        if self._told_connected:
            self._notice_disconnection()
        if self._ensemble.is_alive(self._session_id):
            self._raise_connection()
            self._tell(SessionEvent.RECONNECTED)
            return
        self._shut = SessionExpiredError(f"session 0x{self._session_id:x} expired")
        self._heard_at = None
        self._tell(SessionEvent.EXPIRED)
        # Requests that wait for a connection learn of the expiry first.
        self._raise_connection()
        self._begin_session()

    def lose_next_write(self, *, done: bool) -> None:
        """Lose the connection during the next write, and get it back at once.

        Args:
            done: Whether the ensemble does that write.
        """
        self._lose_next.append(done)

    def fire(self, change: Change) -> None:
        """Call the watches for a change."""
        if not self.is_connected:
            return
        keys = [(change.kind is WatchKind.CHILDREN, change.path)]
        if change.kind is WatchKind.DELETED:
            keys.append((True, change.path))
        for key in keys:
            for watch in self._watches.pop(key, ()):
                watch(WatchEvent(change.kind, change.path))

    def _begin_session(self) -> None:
        self._session_id, self._password = self._ensemble.begin_session(self)
        self._raise_connection()
        self._tell(SessionEvent.CONNECTED)

    def _raise_connection(self) -> None:
        self._connection += 1
        self._told_connected = True
        self._connected.set()
        self._ensemble.note_connection()

    def _drop_connection(self) -> None:
        if self.is_connected:
            self._heard_at = self._monotonic()
            self._connection += 1
            self._connected = trio.Event()
            self._ensemble.note_connection()

    @property
    def _is_silent(self) -> bool:
        """Whether the connection is gone without the client having noticed."""
        return self._told_connected and not self.is_connected

    def _notice_disconnection(self) -> None:
        self._told_connected = False
        self._noticed.set()
        self._noticed = trio.Event()
        self._tell(SessionEvent.SUSPENDED)
        watches, self._watches = self._watches, {}
        for (_, path), watchers in watches.items():
            for watch in watchers:
                watch(WatchEvent(WatchKind.DROPPED, path))

    def _tell(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            listener(event)

    # Requests

    async def renew_session(self) -> None:
        await trio.lowlevel.checkpoint()
        while self._shut is not None:
            await self._connected.wait()
            self._shut = None

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat]:
        return await self._read(lambda: self._get(path, watch))

    async def get_many(
        self, paths: Sequence[str], watch: Watcher | None = None
    ) -> list[tuple[bytes, Stat] | None]:
        return await self._read(lambda: [_or_none(partial(self._get, path, watch)) for path in paths])

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        def look() -> Stat | None:
            self._watch(False, path, watch)
            node = self._ensemble.tree.nodes.get(path)
            return None if node is None else node.stat

        return await self._read(look)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return await self._read(lambda: self._children(path, watch))

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return await self._read(lambda: [_or_none(partial(self._children, path, None)) for path in paths])

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        try:
            return (await self.create_with_stat(path, data, ephemeral=ephemeral, sequence=sequence))[0]
        except NoNodeError:
            if not make_parents:
                raise
            await create_parents(self, path)
            return (await self.create_with_stat(path, data, ephemeral=ephemeral, sequence=sequence))[0]

    async def create_with_stat(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        def create() -> tuple[str, Stat]:
            result = self._transact([Create(path, data, ephemeral, sequence)])
            result.raise_failure()
            created = str(result.results[0])
            return created, self._ensemble.tree.read(created).stat

        return await self._write(create)

    async def set(self, path: str, data: bytes, expected_version: ZkVersion) -> Stat:
        def set_data() -> Stat:
            result = self._transact([SetData(path, data, expected_version)])
            result.raise_failure()
            return result.stat(0)

        return await self._write(set_data)

    async def delete(self, path: str, expected_version: ZkVersion) -> None:
        await self._write(lambda: self._transact([Delete(path, expected_version)]).raise_failure())

    async def multi(self, operations: Sequence[Operation]) -> MultiResult:
        return await self._write(lambda: self._transact(operations))

    async def multi_many(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[MultiResult | ConnectionLossError]:
        results: list[MultiResult | ConnectionLossError] = []
        if not transactions:
            await trio.lowlevel.checkpoint()
        for operations in transactions:
            try:
                results.append(await self.multi(operations))
            except ConnectionLossError as error:
                results.append(error)
        return results

    def _get(self, path: str, watch: Watcher | None) -> tuple[bytes, Stat]:
        node = self._ensemble.tree.read(path)
        self._watch(False, path, watch)
        return node.data or b"", node.stat

    def _children(self, path: str, watch: Watcher | None) -> list[str]:
        node = self._ensemble.tree.read(path)
        self._watch(True, path, watch)
        return sorted(node.children)

    def _watch(self, children: bool, path: str, watch: Watcher | None) -> None:
        if watch is not None:
            self._watches.setdefault((children, path), []).append(watch)

    @property
    def write_bytes_max(self) -> int:
        return self._ensemble.write_bytes_max

    def _transact(self, operations: Sequence[Operation]) -> MultiResult:
        check_write_size(operations, self.write_bytes_max)
        return self._ensemble.write(operations, self._session_id)

    async def _read(self, answer: Callable[[], _Answer]) -> _Answer:
        while True:
            try:
                return await self._request(answer)
            except ConnectionLossError:
                continue

    async def _write(self, answer: Callable[[], _Answer]) -> _Answer:
        if self._lose_next and self.is_connected and self._shut is None:
            done = self._lose_next.pop(0)
            await self._travel()
            if done:
                answer()
            self.disconnect()
            self.reconnect()
            raise ConnectionLossError("lost on purpose")
        return await self._request(answer)

    async def _request(self, answer: Callable[[], _Answer]) -> _Answer:
        """Send a request, execute it, and receive its answer; the connection may be lost in either direction.

        Raises:
            ConnectionLossError: the connection was lost; the caller cannot know whether the request was done.
            SessionExpiredError: the session has expired, before the request or during it.
        """
        session_id = self._session_id
        if self._is_silent:
            await self._noticed.wait()
            self._check_session(session_id)
            raise ConnectionLossError("the connection was gone, unnoticed")
        while not self.is_connected and self._shut is None:
            await self._connected.wait()
        self._check_session(session_id)
        connection = self._connection
        await self._travel()
        self._check_session(session_id)
        await self._check_connection(connection, "before the request arrived")
        result = answer()
        await self._travel()
        self._check_session(session_id)
        await self._check_connection(connection, "before the answer arrived")
        return result

    async def _check_connection(self, connection: int, when: str) -> None:
        if connection == self._connection:
            return
        # Cut off silently: no event reports it, so we wait for an answer that will not come.
        if self._is_silent:
            await self._noticed.wait()
        raise ConnectionLossError(f"the connection went {when}")

    def _check_session(self, session_id: int) -> None:
        if self._shut is not None:
            raise self._shut
        if session_id != self._session_id:
            raise SessionExpiredError(f"session 0x{session_id:x} expired")

    async def _travel(self) -> None:
        delay = self._ensemble.delay
        if delay is None:
            await trio.lowlevel.checkpoint()
        else:
            await trio.sleep(delay())


def _or_none(answer: Callable[[], _Answer]) -> _Answer | None:
    try:
        return answer()
    except NoNodeError:
        return None
