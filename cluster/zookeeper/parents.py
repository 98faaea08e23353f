"""Creating a node together with the nodes above it, for every implementation of `ZooKeeper`."""

from cluster.zookeeper.client import NodeExistsError, NoNodeError, ZooKeeper


async def create_parents(zookeeper: ZooKeeper, path: str) -> None:
    """Create the missing nodes above a path, persistent and empty, from the root down.

    Raises:
        ConnectionLossError: some may have been created; calling it again is safe.
    """
    parent = path.rpartition("/")[0]
    if not parent:
        return
    try:
        await zookeeper.create(parent)
    except NodeExistsError:
        return
    except NoNodeError:
        await create_parents(zookeeper, parent)
        try:
            await zookeeper.create(parent)
        except NodeExistsError:
            return
