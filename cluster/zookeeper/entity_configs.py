"""Changes the configuration of a user, a client or an address, whose node is deleted with its last setting."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.zookeeper.client import (
    BadVersionError,
    ConnectionLossError,
    NoNodeError,
    NotEmptyError,
)
from cluster.zookeeper.config_znodes import ConfigEntityZnode

if TYPE_CHECKING:
    from cluster.zookeeper.broker_store import BrokerStore


async def change_entity_config(
    store: "BrokerStore",
    entity_type: str,
    path: str,
    change: Callable[[dict[str, str]], Mapping[str, str]],
) -> None:
    """Change an entity's configuration by compare-and-set, then have every broker read it.

    A configuration that becomes empty loses its node, and the empty nodes above it, unless it has children.

    Args:
        store: The broker's store.
        entity_type: `users`, `clients` or `ips`.
        path: The entity below it, sanitized; of a user's client `<user>/clients/<client>`.
        change: Returns the new configuration from the present one. Called again if another writer was faster.
    """
    while True:
        present, version = await store.read_config(entity_type, path)
        wanted = change(present)
        if wanted or version is None:
            break
        try:
            await store.zookeeper.delete(ConfigEntityZnode.path(entity_type, path), version)
        except (BadVersionError, ConnectionLossError, NoNodeError):
            continue
        except NotEmptyError:
            break
        await _delete_empty_parents(store, entity_type, path)
        await store.announce_config_change(f"{entity_type}/{path}")
        return
    if wanted or version is not None:
        await store.change_config(entity_type, path, change)


async def _delete_empty_parents(store: "BrokerStore", entity_type: str, path: str) -> None:
    """Delete `<user>/clients`, and `<user>` if it is empty, above a client that was deleted."""
    parents = path.split("/")[:-1]
    while parents:
        parent = ConfigEntityZnode.path(entity_type, "/".join(parents))
        node = await store.read_node(parent)
        if node is None or ConfigEntityZnode.decode(node[0]):
            return
        try:
            await store.zookeeper.delete(parent, node[1].version)
        except (BadVersionError, ConnectionLossError, NoNodeError, NotEmptyError):
            return  # it is in use again, or stays behind empty, which is harmless
        parents.pop()
