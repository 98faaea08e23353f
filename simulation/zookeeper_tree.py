"""ZooKeeper's tree of nodes as a pure value machine: versions, ephemerals, sequences, transactions. No sessions here.

A transaction is applied operation by operation, each recording how to undo it; the first that fails undoes those
before. The changes are returned, for the caller to fire watches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cluster.zookeeper.client import (
    ANY_VERSION,
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    MultiResult,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OperationResult,
    RolledBackError,
    SetData,
    Stat,
    WatchKind,
    ZooKeeperError,
)
from wire.types import ZkVersion


@dataclass(slots=True)
class Node:
    """One node, and the fields of its stat."""

    data: bytes | None
    czxid: int
    mzxid: int
    modified_ms: int
    ephemeral_owner: int = 0
    version: int = 0
    created_children: int = 0
    children: set[str] = field(default_factory=set)

    @property
    def stat(self) -> Stat:
        """The node's stat, as it is now."""
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=ZkVersion(self.version),
            child_version=2 * self.created_children - len(self.children),
            ephemeral_owner=self.ephemeral_owner,
            child_count=len(self.children),
            modified_ms=self.modified_ms,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a watch can be set on: of a node, or of the list of its children."""

    kind: WatchKind
    path: str


Undo = Callable[[], None]


class ZooKeeperTree:
    """All nodes, by path."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Node] = {"/": Node(None, 0, 0, 0)}

    def read(self, path: str) -> Node:
        """Return a node.

        Raises:
            NoNodeError: there is none.
        """
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def transact(
        self, operations: Sequence[Operation], owner: int, now_ms: int
    ) -> tuple[MultiResult, list[Change]]:
        """Do all operations or none.

        Args:
            operations: In order.
            owner: The session that owns the ephemeral nodes.
            now_ms: For the nodes' stats.

        Returns:
            The results, and what changed: nothing where an operation failed.
        """
        self.zxid += 1
        results: list[OperationResult] = []
        changes: list[Change] = []
        undos: list[Undo] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, owner, now_ms, changes, undos))
            except ZooKeeperError as error:
                for undo in reversed(undos):
                    undo()
                failed: list[OperationResult] = [RolledBackError(str(error)) for _ in operations]
                failed[index] = error
                return MultiResult(tuple(failed)), []
        return MultiResult(tuple(results)), changes

    def end_session(self, owner: int) -> list[Change]:
        """Delete every ephemeral node of a session."""
        self.zxid += 1
        changes: list[Change] = []
        for path in sorted(path for path, node in self.nodes.items() if node.ephemeral_owner == owner):
            self._delete(path, ANY_VERSION, changes, [])
        return changes

    def _apply(
        self, operation: Operation, owner: int, now_ms: int, changes: list[Change], undos: list[Undo]
    ) -> OperationResult:
        match operation:
            case Create():
                return self._create(operation, owner if operation.ephemeral else 0, now_ms, changes, undos)
            case SetData(path, data, expected_version):
                return self._set(path, data, expected_version, now_ms, changes, undos)
            case Delete(path, expected_version):
                self._delete(path, expected_version, changes, undos)
                return None
            case CheckVersion(path, expected_version):
                self._check(path, expected_version)
                return None

    def _create(
        self, operation: Create, owner: int, now_ms: int, changes: list[Change], undos: list[Undo]
    ) -> str:
        parent_path = _parent(operation.path)
        parent = self.read(parent_path)
        if parent.ephemeral_owner:
            raise NoChildrenForEphemeralsError(operation.path)
        path = operation.path
        if operation.sequence:
            path += f"{parent.created_children:010d}"
        if path in self.nodes:
            raise NodeExistsError(path)
        name = path.rpartition("/")[2]
        self.nodes[path] = Node(operation.data, self.zxid, self.zxid, now_ms, owner)
        parent.children.add(name)
        parent.created_children += 1

        def undo() -> None:
            del self.nodes[path]
            parent.children.discard(name)
            parent.created_children -= 1

        undos.append(undo)
        changes += [Change(WatchKind.CREATED, path), Change(WatchKind.CHILDREN, parent_path)]
        return path

    def _set(
        self,
        path: str,
        data: bytes,
        expected_version: ZkVersion,
        now_ms: int,
        changes: list[Change],
        undos: list[Undo],
    ) -> Stat:
        node = self._check(path, expected_version)
        before = (node.data, node.mzxid, node.modified_ms, node.version)
        node.data, node.mzxid, node.modified_ms, node.version = data, self.zxid, now_ms, node.version + 1

        def undo() -> None:
            node.data, node.mzxid, node.modified_ms, node.version = before

        undos.append(undo)
        changes.append(Change(WatchKind.CHANGED, path))
        return node.stat

    def _delete(
        self, path: str, expected_version: ZkVersion, changes: list[Change], undos: list[Undo]
    ) -> None:
        node = self._check(path, expected_version)
        if node.children:
            raise NotEmptyError(path)
        parent_path = _parent(path)
        parent = self.nodes[parent_path]
        name = path.rpartition("/")[2]
        del self.nodes[path]
        parent.children.discard(name)

        def undo() -> None:
            self.nodes[path] = node
            parent.children.add(name)

        undos.append(undo)
        changes += [Change(WatchKind.DELETED, path), Change(WatchKind.CHILDREN, parent_path)]

    def _check(self, path: str, expected_version: ZkVersion) -> Node:
        node = self.read(path)
        if expected_version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} is at version {node.version}, not {expected_version}")
        return node


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
