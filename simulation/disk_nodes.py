"""Files and directories of a simulated disk: as they are, as they were synced, and the changes since."""

from collections.abc import Callable
from dataclasses import dataclass, field

Choose = Callable[[int], int]
"""Given n, returns a number from 0 to n: here the test's source of chance decides."""


@dataclass(slots=True)
class Write:
    position: int
    data: bytes


@dataclass(slots=True)
class Truncate:
    size: int


class Inode:
    """A file's bytes: as they are, as they were synced, and the changes since."""

    __slots__ = ("data", "modified_ms", "pending", "synced")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.synced = b""
        self.pending: list[Write | Truncate] = []
        self.modified_ms = modified_ms

    def apply(self, change: Write | Truncate) -> None:
        self.pending.append(change)
        apply_change(self.data, change)

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.pending.clear()

    def after_crash(self, choose: Choose) -> bytes:
        data = bytearray(self.synced)
        for change in self.pending:
            match change:
                case Write(position, written):
                    match choose(2):
                        case 0:
                            apply_change(data, change)
                        case 1:
                            kept = choose(len(written))
                            apply_change(data, Write(position, written[:kept]))
                case Truncate():
                    if choose(1) == 0:
                        apply_change(data, change)
        return bytes(data)


def apply_change(data: bytearray, change: Write | Truncate) -> None:
    match change:
        case Write(position, written):
            if len(data) < position and written:
                data.extend(bytes(position - len(data)))
            data[position : position + len(written)] = written
        case Truncate(size):
            if size < len(data):
                del data[size:]
            else:
                data.extend(bytes(size - len(data)))


@dataclass(slots=True)
class Directory:
    """A directory's names: as they are, as they were synced, and each state since."""

    names: "dict[str, Inode | Directory]" = field(default_factory=dict)
    synced: "dict[str, Inode | Directory]" = field(default_factory=dict)
    history: "list[dict[str, Inode | Directory]]" = field(default_factory=list)

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def sync(self) -> None:
        self.synced = dict(self.names)
        self.history.clear()


def total_bytes(directory: Directory) -> int:
    return sum(
        total_bytes(node) if isinstance(node, Directory) else len(node.data)
        for node in directory.names.values()
    )


def surviving(directory: Directory, choose: Choose, done: dict[int, Inode]) -> Directory:
    states = [directory.synced, *directory.history]
    # The first choice is that everything is there: a test that fails shrinks towards a crash that lost nothing.
    kept = states[len(states) - 1 - choose(len(states) - 1)]
    after = Directory()
    for name, node in kept.items():
        if isinstance(node, Directory):
            after.names[name] = surviving(node, choose, done)
            continue
        inode = done.get(id(node))
        if inode is None:
            inode = done[id(node)] = Inode(node.modified_ms)
            inode.synced = node.after_crash(choose)
            inode.data = bytearray(inode.synced)
        after.names[name] = inode
    after.sync()
    return after
