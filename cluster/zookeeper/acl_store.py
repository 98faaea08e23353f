"""Access rules in ZooKeeper: read them all, change them one resource at a time, follow the changes of others.

A change is a compare-and-set of one resource's node. Entries that we cannot read (an operation of a later version)
match nothing, and are kept when their node is rewritten. kafka-acls can write the nodes without any broker, so the
rules in memory are never trusted for a write.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from cluster.security.acl import (
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_pascal,
    pascal,
)
from cluster.zookeeper.acl_znodes import (
    LITERAL,
    PREFIXED,
    RESOURCE_TYPES,
    AclChangeZnode,
    AclEntry,
    AclResource,
    AclZnode,
)
from cluster.zookeeper.change_notifications import ChangeNotifications
from cluster.zookeeper.client import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeper,
    ZooKeeperError,
)
from cluster.zookeeper.json_data import MalformedZnodeError
from cluster.zookeeper.reader import ZnodeReader
from wire.types import WallMs, ZkVersion

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 10
RETRY_S: Final = 0.1
"""The shortest pause before a change that met another writer is retried; a random part of up to half of it is added."""
_KINDS: Final = {PatternType.LITERAL: LITERAL, PatternType.PREFIXED: PREFIXED}


class AclContentionError(ZooKeeperError):
    """Another writer was faster at each attempt to change a resource's rules."""


class AclStore:
    """The rules of a cluster as ZooKeeper has them.

    Args:
        zookeeper: The session.
        wall_ms: The wall clock, for the age of notifications.
        random: A number from 0 to 1 at each call, which spreads the retries of competing writers.
    """

    def __init__(
        self, zookeeper: ZooKeeper, wall_ms: Callable[[], WallMs], random: Callable[[], float]
    ) -> None:
        self._zookeeper = zookeeper
        self._reader = ZnodeReader(zookeeper)
        self._random = random
        self._changes = tuple(
            ChangeNotifications(zookeeper, wall_ms, AclChangeZnode.parent(kind))
            for kind in (LITERAL, PREFIXED)
        )

    async def mark_read(self) -> None:
        """Mark all present notifications as handled: the caller reads every rule after this."""
        for changes in self._changes:
            await changes.mark_read()

    async def read_all(self) -> list[tuple[ResourcePattern, frozenset[AclRule]]]:
        """Read every rule, in overlapping reads. A node that does not parse is logged and left out."""
        patterns = []
        roots = [
            (kind, type_name, f"{AclZnode.root(kind)}/{RESOURCE_TYPES[type_name]}")
            for kind in (LITERAL, PREFIXED)
            for type_name in RESOURCE_TYPES
        ]
        for (kind, type_name, _), names in zip(
            roots, await self._zookeeper.children_many([path for *_, path in roots]), strict=True
        ):
            patterns += [
                ResourcePattern(ResourceType[type_name], name, PatternType[kind]) for name in names or ()
            ]
        paths = [AclZnode.path(_resource(pattern)) for pattern in patterns]
        nodes = await self._zookeeper.get_many(paths)
        found = zip(patterns, nodes, strict=True)
        return [(pattern, _rules(pattern, node[0])) for pattern, node in found if node is not None]

    async def read(self, pattern: ResourcePattern) -> frozenset[AclRule]:
        """Read the rules of one pattern; none if it has no node."""
        node = await self._reader.read_node(AclZnode.path(_resource(pattern)))
        return frozenset() if node is None else _rules(pattern, node[0])

    async def change(
        self, pattern: ResourcePattern, change: Callable[[frozenset[AclRule]], Iterable[AclRule]]
    ) -> tuple[frozenset[AclRule], frozenset[AclRule]]:
        """Change a pattern's rules by compare-and-set, and announce it if they have changed.

        Cancelled between the two, the change is written and not announced; brokers see it when they next read all.

        Args:
            pattern: The pattern whose rules change.
            change: Returns the new rules from the present ones. Called again if another writer was faster.

        Returns:
            The rules before and after.

        Raises:
            AclContentionError: others were faster ten times in a row.
            MalformedZnodeError: the node's content is malformed, and is not overwritten.
        """
        resource = _resource(pattern)
        path = AclZnode.path(resource)
        unsure: frozenset[AclRule] | None = None  # the rules before a write whose outcome is unknown
        for _ in range(ATTEMPTS_MAX):
            node = await self._reader.read_node(path)
            entries = frozenset() if node is None else AclZnode.decode(node[0])
            before = _read_entries(pattern, entries)
            present = frozenset(before.values())
            wanted = frozenset(change(present))
            if wanted == present:
                if unsure is None:
                    return present, present
                await self._announce(resource)
                return unsure, present
            # Entries that we do not understand stay as they are.
            kept = [entry for entry in entries if entry not in before]
            written = [*kept, *(_entry(rule) for rule in sorted(wanted))]
            try:
                await self._write(path, written, None if node is None else node[1].version)
            except ConnectionLossError:
                unsure = present
                continue
            except (BadVersionError, NodeExistsError, NoNodeError):
                pass
            else:
                await self._announce(resource)
                return present, wanted
            await trio.sleep(RETRY_S * (1 + self._random() / 2))
        raise AclContentionError(f"the rules of {pattern} were changed by others {ATTEMPTS_MAX} times")

    async def follow(self, on_change: Callable[[ResourcePattern], Awaitable[None]]) -> None:
        """Report each pattern whose rules may have changed; runs until it is cancelled.

        Raises:
            SessionExpiredError: the session expired: read all and call it again when it is renewed.
        """

        async def changed(path: str, data: bytes) -> None:
            try:
                resource = AclChangeZnode.decode(data)
                pattern = ResourcePattern(
                    ResourceType[resource.resource_type], resource.name, PatternType[resource.pattern_type]
                )
            except (MalformedZnodeError, KeyError):
                logger.warning("%s is skipped: it names no resource", path)
                return
            await on_change(pattern)

        expired: list[SessionExpiredError] = []

        async def follow_one(changes: ChangeNotifications) -> None:
            try:
                await changes.follow(changed)
            except SessionExpiredError as error:
                expired.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for changes in self._changes:
                nursery.start_soon(follow_one, changes)
        if expired:
            raise expired[0]

    async def _write(self, path: str, entries: list[AclEntry], version: ZkVersion | None) -> None:
        if version is None:
            await self._zookeeper.create(path, AclZnode.encode(entries), make_parents=True)
        elif entries:
            await self._zookeeper.set(path, AclZnode.encode(entries), version)
        else:
            await self._zookeeper.delete(path, version)

    async def _announce(self, resource: AclResource) -> None:
        prefix, data = AclChangeZnode.prefix(resource.pattern_type), AclChangeZnode.encode(resource)
        while True:
            try:
                await self._zookeeper.create(prefix, data, sequence=True, make_parents=True)
            except ConnectionLossError:
                continue
            return


def is_storable_name(name: str) -> bool:
    """Return whether ZooKeeper accepts a resource's name as the name of a node."""
    if name in ("", ".", "..") or "/" in name:
        return False
    return not any(
        character <= "\u001f"
        or "\u007f" <= character <= "\u009f"
        or "\ud800" <= character <= "\uf8ff"
        or character >= "\ufff0"
        for character in name
    )


def _resource(pattern: ResourcePattern) -> AclResource:
    return AclResource(_KINDS[pattern.pattern_type], pattern.resource_type.name, pattern.name)


def _rules(pattern: ResourcePattern, data: bytes) -> frozenset[AclRule]:
    try:
        return frozenset(_read_entries(pattern, AclZnode.decode(data)).values())
    except MalformedZnodeError:
        logger.warning("the rules of %s are left out: their node does not parse", pattern)
        return frozenset()


def _read_entries(pattern: ResourcePattern, entries: Iterable[AclEntry]) -> dict[AclEntry, AclRule]:
    """Return the rules in entries; those of unknown form are left out with a warning."""
    rules = {}
    for entry in entries:
        operation = from_pascal(Operation, entry.operation)
        permission = from_pascal(Permission, entry.permission_type)
        if operation is None or permission is None:
            logger.warning("a rule of %s is ignored: its operation or permission is unknown", pattern)
            continue
        rules[entry] = AclRule(entry.principal, entry.host, operation, permission)
    return rules


def _entry(rule: AclRule) -> AclEntry:
    return AclEntry(rule.principal, rule.host, pascal(rule.operation), pascal(rule.permission))
