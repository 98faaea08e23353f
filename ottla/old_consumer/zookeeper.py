"""Access to the ensemble: what a consumer needs of a session, and the real session, which runs outside of the loop."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

import trio

from cluster.zookeeper.client import SessionListener, Stat, Watcher
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from ottla.client.task_scope import TaskScope
from security.zookeeper_access import OPEN, ZooKeeperAccess
from timing.clock import SystemClock
from wire.types import MonotonicSeconds, ZkVersion


class GroupZooKeeper(Protocol):
    """The part of `cluster.zookeeper.client.ZooKeeper` that a consumer of a group uses; the same rules hold."""

    @property
    def session_id(self) -> int:
        """The id of the session that is open."""
        ...

    def session_is_live(self, now: MonotonicSeconds) -> bool:
        """Return whether the session is known to be alive, by the caller's monotonic clock."""
        ...

    def subscribe(self, listener: SessionListener) -> None:
        """Call ``listener`` with each later event of the session."""
        ...

    async def renew_session(self) -> None:
        """Wait for a session and open it for use."""
        ...

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat]:
        """Read a node."""
        ...

    async def get_many(
        self, paths: Sequence[str], watch: Watcher | None = None
    ) -> list[tuple[bytes, Stat] | None]:
        """Read many nodes; None where there is none."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the names of a node's children, sorted."""
        ...

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Return the children of many nodes; None where there is none."""
        ...

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create a node."""
        ...

    async def set(self, path: str, data: bytes, expected_version: ZkVersion) -> Stat:
        """Replace a node's data."""
        ...

    async def delete(self, path: str, expected_version: ZkVersion) -> None:
        """Delete a node."""
        ...


class GroupSession(GroupZooKeeper, Protocol):
    """A session that a task keeps alive."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, report that as started, and keep the session until cancelled; then close it.

        Raises:
            ZooKeeperError: The ensemble cannot be reached, or refuses the credentials.
        """
        ...


def make_session(
    connect: str, session_timeout_s: float, connect_timeout_s: float, access: ZooKeeperAccess = OPEN
) -> GroupSession:
    """Return a session with a real ensemble; a thread of its own talks to it.

    Args:
        connect: ``host:port,host:port/chroot``.
        session_timeout_s: The session timeout to ask for.
        connect_timeout_s: How long the first connection may take.
        access: TLS and credentials.
    """
    clock = SystemClock()
    return KazooZooKeeper(
        connect,
        session_timeout_s,
        clock.monotonic,
        connect_timeout_s=connect_timeout_s,
        boottime=clock.boottime,
        access=access,
    )


class HeldSession:
    """A session for the length of an ``async with`` block.

    Args:
        session: Made by `make_session`.
    """

    def __init__(self, session: GroupSession) -> None:
        self._session = session
        self._scope = TaskScope()
        self._nursery: Any = None

    async def __aenter__(self) -> GroupSession:
        self._nursery = await self._scope.open()
        try:
            await self._nursery.start(self._session.run)
        except BaseException as error:
            await self._scope.close(self._nursery, type(error), error, error.__traceback__)
            raise
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._scope.close(self._nursery, kind, error, trace)
