"""The interface to ZooKeeper: what a session can do, which errors it can raise, and which of its states it reports.

Rules that hold for every implementation (and that the contract suite checks):

- A watch fires once and says "look again". Every disconnect drops all watches, and each of their callbacks is
  then called with ``WatchKind.DROPPED``: the watcher reads and watches again, same session or not.
- Reads are repeated automatically after a reconnection. A write that was under way when the connection was lost raises
  `ConnectionLossError`, and its outcome is unknown: read again and compare.
- Once the session has expired, everything raises `SessionExpiredError` until the owner of the ephemeral nodes
  calls `ZooKeeper.renew_session`. Nothing is sent in a new session before its owner registers again.
- Callbacks run on trio's thread, between tasks, and must not block or raise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from wire.types import MonotonicSeconds, ZkVersion

ANY_VERSION: Final = ZkVersion(-1)
"""In place of an expected version: write whatever the node's version is."""
INITIAL_VERSION: Final = ZkVersion(0)
"""The version of a node that was created and never set."""


class ZooKeeperError(Exception):
    """ZooKeeper refused an operation, or could not be reached."""


class ConnectionLossError(ZooKeeperError):
    """The connection was lost while a write was under way: whether it was done is unknown."""


class SessionExpiredError(ZooKeeperError):
    """The session is gone, and with it every ephemeral node it owned."""


class NoNodeError(ZooKeeperError):
    """The node, or the parent of a node to be created, does not exist."""


class NodeExistsError(ZooKeeperError):
    """The node to be created exists already."""


class BadVersionError(ZooKeeperError):
    """The node has been written since the expected version."""


class NotEmptyError(ZooKeeperError):
    """The node to be deleted has children."""


class NoChildrenForEphemeralsError(ZooKeeperError):
    """The parent of the node to be created is ephemeral."""


class NoAuthError(ZooKeeperError):
    """The node's ACL does not let this session do that, or the session's credentials were refused."""


class OversizedWriteError(ZooKeeperError):
    """The write is larger than ZooKeeper accepts: it was not sent."""


class RolledBackError(ZooKeeperError):
    """An operation of a `multi` was not done because another one of it failed."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper stores about a node besides its data.

    Attributes:
        czxid: The transaction that created the node; grows over the whole ensemble's life.
        mzxid: The transaction that last set its data.
        version: How often its data was set.
        child_version: How often its children changed.
        ephemeral_owner: The session whose end deletes the node, 0 for a persistent one.
        child_count: How many children it has.
        modified_ms: When its data was last set, by ZooKeeper's wall clock.
    """

    czxid: int
    mzxid: int
    version: ZkVersion
    child_version: int = 0
    ephemeral_owner: int = 0
    child_count: int = 0
    modified_ms: int = 0


class WatchKind(Enum):
    """Why a watch fired."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"
    DROPPED = "dropped"  # the connection was lost, and the watch with it: nothing is known to have changed


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """Says that something may have changed at a path; never what it changed to."""

    kind: WatchKind
    path: str


Watcher = Callable[[WatchEvent], None]


class SessionEvent(Enum):
    """What happened to the session."""

    CONNECTED = "connected"  # a session that is new; after an expiry it is closed until it is renewed
    SUSPENDED = "suspended"  # not connected; the session may live on: decide nothing
    RECONNECTED = "reconnected"  # the same session, but every watch is gone
    EXPIRED = "expired"  # every ephemeral node is gone


SessionListener = Callable[[SessionEvent], None]


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node; answers its path."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data if it has the expected version; answers its new `Stat`."""

    path: str
    data: bytes
    expected_version: ZkVersion


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node without children if it has the expected version; answers ``None``."""

    path: str
    expected_version: ZkVersion


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """Do nothing, but fail the whole `multi` unless the node has the expected version; answers ``None``."""

    path: str
    expected_version: ZkVersion


Operation = Create | SetData | Delete | CheckVersion
OperationResult = str | Stat | ZooKeeperError | None


@dataclass(frozen=True, slots=True)
class MultiResult:
    """The outcome of a `multi`: all of it was done, or nothing.

    Attributes:
        results: One per operation, in order. If the transaction failed: the error of the operation that failed, and
            `RolledBackError` for the others.
    """

    results: tuple[OperationResult, ...]

    @property
    def ok(self) -> bool:
        """Whether everything was done."""
        return self.failure is None

    @property
    def failure(self) -> tuple[int, ZooKeeperError] | None:
        """The index and the error of the operation that made the transaction fail."""
        rolled_back: tuple[int, ZooKeeperError] | None = None
        for index, result in enumerate(self.results):
            if isinstance(result, RolledBackError):
                rolled_back = rolled_back or (index, result)
            elif isinstance(result, ZooKeeperError):
                return index, result
        return rolled_back

    def stat(self, index: int) -> Stat:
        """Return the stat that a `SetData` of a successful multi answered."""
        result = self.results[index]
        if not isinstance(result, Stat):
            raise TypeError(f"operation {index} answered {result!r}, not a stat")
        return result

    def raise_failure(self) -> None:
        """Raise the error that made the transaction fail, if it failed.

        Raises:
            ZooKeeperError: the error of the first operation that failed by itself.
        """
        if self.failure is not None:
            raise self.failure[1]


class ZooKeeper(Protocol):
    """One session with ZooKeeper, used from one trio loop.

    Any call can raise `SessionExpiredError`; any write `ConnectionLossError`. While the connection is down,
    calls wait for it. A cancelled read leaves nothing behind; a cancelled write may or may not be done.
    """

    @property
    def session_id(self) -> int:
        """The id of the session that is open, 0 before the first."""
        ...

    @property
    def session_password(self) -> bytes:
        """The password that joins or closes this session, together with its id. A secret."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """The session timeout that ZooKeeper granted, in seconds."""
        ...

    @property
    def last_zxid(self) -> int:
        """The newest transaction of the ensemble that an answer in this session has shown; 0 before the first."""
        ...

    @property
    def write_bytes_max(self) -> int:
        """How large a write may be; a larger one raises `OversizedWriteError` and is not sent."""
        ...

    def session_is_live(self, now: MonotonicSeconds) -> bool:
        """Return whether the session is known to be live: the clock by which a controller fences itself.

        It is ``False`` as soon as more than the session timeout has gone by since the *sending* of the last
        probe that was answered, whether or not a disconnection was reported. Call it at each use: a timer may fire
        late, for example after a SIGCONT.

        Args:
            now: The time on the monotonic clock that the session was made with.
        """
        ...

    def subscribe(self, listener: SessionListener) -> None:
        """Call ``listener`` with each later `SessionEvent`."""
        ...

    async def renew_session(self) -> None:
        """Wait for a session to be connected and open it for use. A no-op while the current one is open.

        Only the owner of the ephemeral nodes calls this, just before it registers again.

        Raises:
            NoAuthError: the ensemble refused our credentials; there will be no session.
        """
        ...

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, Stat]:
        """Read a node, and watch its data and existence in the same operation.

        A node without data (null) reads as empty. No watch is left where the node does not exist.

        Raises:
            NoNodeError: there is no such node.
        """
        ...

    async def get_many(
        self, paths: Sequence[str], watch: Watcher | None = None
    ) -> list[tuple[bytes, Stat] | None]:
        """Read many nodes in overlapping requests: one result per path, ``None`` for a node that does not exist.

        A watch is left on each node that exists.
        """
        ...

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """Return whether a node exists, and watch for its creation, deletion or change."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the names of a node's children, sorted, and watch for children that come and go.

        Raises:
            NoNodeError: there is no such node.
        """
        ...

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Return the children of many nodes, in overlapping requests: ``None`` for a node that does not exist."""
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
        """Create a node and return its path, which differs from ``path`` if ``sequence`` appends ten digits.

        Raises:
            NodeExistsError: the node exists.
            NoNodeError: its parent does not, and ``make_parents`` is not set.
        """
        ...

    async def create_with_stat(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, Stat]:
        """Create a node and return its path and its stat."""
        ...

    async def set(self, path: str, data: bytes, expected_version: ZkVersion) -> Stat:
        """Replace a node's data.

        Raises:
            NoNodeError: there is no such node.
            BadVersionError: its version is another one.
        """
        ...

    async def delete(self, path: str, expected_version: ZkVersion) -> None:
        """Delete a node.

        Raises:
            NoNodeError: there is no such node.
            BadVersionError: its version is another one.
            NotEmptyError: it has children.
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> MultiResult:
        """Do all operations as one transaction, or none of them; a failure is returned, not raised."""
        ...

    async def multi_many(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[MultiResult | ConnectionLossError]:
        """Do many transactions in overlapping requests, begun in order; each succeeds or fails by itself.

        If a lost connection leaves the outcome of a transaction unknown, the error is returned in its place.
        """
        ...
