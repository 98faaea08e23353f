"""Deletes what ZooKeeper has of a topic, from the leaves up: after an interruption anywhere, it can begin again."""

from collections.abc import Sequence

from cluster.zookeeper.client import (
    ANY_VERSION,
    ConnectionLossError,
    Delete,
    NoNodeError,
    NotEmptyError,
    Operation,
    ZooKeeper,
)
from cluster.zookeeper.fence import ControllerFence
from cluster.zookeeper.znodes import TOPICS, ConfigEntityZnode, DeleteTopicsZnode, TopicZnode

_DELETIONS_PER_TRANSACTION = 100


async def remove_topic(zookeeper: ZooKeeper, fence: ControllerFence, topic: str) -> None:
    """Delete a topic's partitions, its assignment, its configuration, and last the mark of its deletion.

    The topic's own node, its configuration and its mark go in one transaction. If cancelled, it leaves the mark.

    Args:
        zookeeper: The session.
        fence: The fence that the election returned.
        topic: Its name.

    Raises:
        ControllerMovedError: another controller was elected.
    """
    roots = [
        TopicZnode.path(topic),
        ConfigEntityZnode.path(TOPICS, topic),
        DeleteTopicsZnode.path(topic),
    ]
    while True:
        below = await _nodes_below(zookeeper, roots[0])
        if not await _delete_leaves_first(zookeeper, fence, below):
            continue
        stats = [await zookeeper.exists(path) for path in roots]
        last: list[Operation] = [
            Delete(path, ANY_VERSION) for path, stat in zip(roots, stats, strict=True) if stat is not None
        ]
        if not last:
            return
        try:
            result = await fence.write(zookeeper, last)
        except ConnectionLossError:
            continue
        if result.failure is None:
            return
        if not isinstance(result.failure[1], (NoNodeError, NotEmptyError)):
            raise result.failure[1]


async def _nodes_below(zookeeper: ZooKeeper, path: str) -> list[str]:
    """Return all nodes below one, each before its own children."""
    found: list[str] = []
    level = [path]
    while level:
        children = await zookeeper.children_many(level)
        level = [
            f"{parent}/{name}" for parent, names in zip(level, children, strict=True) for name in names or ()
        ]
        found += level
    return found


async def _delete_leaves_first(zookeeper: ZooKeeper, fence: ControllerFence, nodes: Sequence[str]) -> bool:
    """Delete nodes, children before parents; ``False`` if something changed in the meantime: list them again."""
    deletions = [Delete(path, ANY_VERSION) for path in reversed(nodes)]
    size = _DELETIONS_PER_TRANSACTION
    # ZooKeeper executes a session's requests in order: parents come after their children.
    results = await fence.write_many(
        zookeeper, [deletions[start : start + size] for start in range(0, len(deletions), size)]
    )
    for result in results:
        if isinstance(result, ConnectionLossError):
            return False
        if result.failure is not None:
            if not isinstance(result.failure[1], (NoNodeError, NotEmptyError)):
                raise result.failure[1]
            return False
    return True
