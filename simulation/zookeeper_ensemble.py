"""All of a fake ZooKeeper's servers as one object: the tree, and the sessions with their ephemeral nodes."""

from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from cluster.zookeeper.client import MultiResult, Operation
from cluster.zookeeper.write_sizes import DEFAULT_WRITE_BYTES_MAX
from simulation.zookeeper_tree import Change, ZooKeeperTree


class SessionHolder(Protocol):
    """The client side of a session, as the ensemble sees it."""

    @property
    def is_connected(self) -> bool:
        """Whether it reaches the ensemble."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """How long the session outlasts its connection, in seconds."""
        ...

    def disconnect(self, *, silently: bool = False) -> None:
        """Lose the connection."""
        ...

    def reconnect(self) -> None:
        """Find the ensemble again."""
        ...

    def fire(self, change: Change) -> None:
        """Call the watches for a change."""
        ...


class FakeEnsemble:
    """All of ZooKeeper's servers as one: the tree, and the sessions with their ephemeral nodes.

    Attributes:
        delay: Returns the seconds that a request and its answer each take on the way; none by default.
        wall_ms: Returns the wall clock for the nodes' stats, in milliseconds.
        on_write: Called with each transaction that was done, before any watch fires.
    """

    def __init__(
        self,
        *,
        delay: Callable[[], float] | None = None,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.tree = ZooKeeperTree()
        self.write_bytes_max = DEFAULT_WRITE_BYTES_MAX
        self.delay = delay
        self.wall_ms = wall_ms
        self.on_write: Callable[[Sequence[Operation]], None] | None = None
        self._sessions: dict[int, SessionHolder] = {}
        self._last_session = 0x1000_0000_0000
        self._connections_changed = trio.Event()

    async def run(self) -> None:
        """Expire sessions that stay disconnected for their timeout, until cancelled; without it, none expires."""
        silent_since: dict[int, float] = {}
        while True:
            self._connections_changed = trio.Event()
            now = trio.current_time()
            silent = {
                session_id: zookeeper
                for session_id, zookeeper in self._sessions.items()
                if not zookeeper.is_connected
            }
            silent_since = {session_id: silent_since.get(session_id, now) for session_id in silent}
            deadlines = {
                session_id: silent_since[session_id] + zookeeper.session_timeout_s
                for session_id, zookeeper in silent.items()
            }
            for session_id, deadline in sorted(deadlines.items()):
                if deadline <= now:
                    self._end(session_id)
                    del deadlines[session_id]
            with trio.move_on_at(min(deadlines.values(), default=float("inf"))):
                await self._connections_changed.wait()

    def note_connection(self) -> None:
        """Take note that a client has connected or lost its connection."""
        self._connections_changed.set()

    @property
    def session_ids(self) -> list[int]:
        """The live sessions, by id."""
        return sorted(self._sessions)

    def begin_session(self, zookeeper: SessionHolder) -> tuple[int, bytes]:
        """Begin a session, and return its id and password."""
        self._last_session += 1
        self._sessions[self._last_session] = zookeeper
        return self._last_session, self._last_session.to_bytes(16, "big")

    def is_alive(self, session_id: int) -> bool:
        """Return whether a session lives."""
        return session_id in self._sessions

    def expire(self, session_id: int) -> None:
        """End a session as if it had been silent for too long; if it is connected, it learns that at once."""
        zookeeper = self._sessions[session_id]
        self._end(session_id)
        if zookeeper.is_connected:
            zookeeper.disconnect()
            zookeeper.reconnect()

    def close_session(self, session_id: int, password: bytes) -> None:
        """End a session from outside, as the guardian does; its client, if there is one, sees an expiry."""
        if session_id in self._sessions and password == session_id.to_bytes(16, "big"):
            self.expire(session_id)

    def leave(self, session_id: int) -> None:
        """End a session at its client's request."""
        if session_id in self._sessions:
            self._end(session_id)

    def write(self, operations: Sequence[Operation], owner: int) -> MultiResult:
        """Execute a transaction and fire the watches that it concerns."""
        result, changes = self.tree.transact(operations, owner, self.wall_ms())
        if result.ok and self.on_write is not None:
            self.on_write(operations)
        self._fire(changes)
        return result

    def _end(self, session_id: int) -> None:
        del self._sessions[session_id]
        self._fire(self.tree.end_session(session_id))

    def _fire(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for zookeeper in list(self._sessions.values()):
                zookeeper.fire(change)
