"""Keeps the authorizer's rules in line with ZooKeeper, and makes the changes that administrators request."""

import logging
from collections.abc import Callable, Mapping, Sequence

from cluster.security.acl import AclBinding, AclFilter, AclRule, ResourcePattern
from cluster.security.acl_table import AclTable
from cluster.zookeeper.acl_store import AclStore
from cluster.zookeeper.client import SessionExpiredError, ZooKeeperError
from cluster.zookeeper.json_data import MalformedZnodeError

logger = logging.getLogger(__name__)


class StoredAcls:
    """Access rules, in memory for decisions and in ZooKeeper for all brokers.

    Args:
        table: The rules for decisions; kept current by `load` and `follow`.
        store: The rules as ZooKeeper has them.
    """

    def __init__(self, table: AclTable, store: AclStore) -> None:
        self._table = table
        self._store = store

    async def load(self) -> None:
        """Read every rule; `follow` continues from here."""
        await self._store.mark_read()
        self._table.replace_all(await self._store.read_all())
        logger.info("loaded %d access rules", len(self._table))

    async def follow(self, *, reload: bool) -> None:
        """Apply changes until cancelled, or until the session expires: then call it again, with `reload`.

        Args:
            reload: Whether to read every rule first: those of an expired session may be out of date.
        """
        try:
            if reload:
                await self.load()
            await self._store.follow(self._changed)
        except SessionExpiredError:
            logger.info("access rules stay as they are until the session is renewed")

    async def create(
        self, bindings: Sequence[AclBinding]
    ) -> list[ZooKeeperError | MalformedZnodeError | None]:
        """Store bindings, one write for each resource, and return what went wrong with each.

        When it returns, this broker decides by the new rules; other brokers follow soon.
        """
        by_pattern: dict[ResourcePattern, set[AclRule]] = {}
        for binding in bindings:
            by_pattern.setdefault(binding.pattern, set()).add(binding.rule)
        failures: dict[ResourcePattern, ZooKeeperError | MalformedZnodeError] = {}
        for pattern, added in by_pattern.items():
            try:
                await self._change(pattern, lambda present, added=added: present | added)  # type: ignore[misc]
            except (ZooKeeperError, MalformedZnodeError) as failure:
                failures[pattern] = failure
        return [failures.get(binding.pattern) for binding in bindings]

    async def delete(
        self, filters: Sequence[AclFilter]
    ) -> list[Mapping[AclBinding, ZooKeeperError | MalformedZnodeError | None]]:
        """Delete what filters select; a binding that several select is listed for the first.

        Returns:
            For each filter its bindings, each with the error of its deletion, if any.
        """
        results: list[dict[AclBinding, ZooKeeperError | MalformedZnodeError | None]] = [{} for _ in filters]
        candidates = dict.fromkeys(
            pattern
            for pattern in self._table.patterns()
            if any(each.matches_pattern(pattern) for each in filters)
        )
        # ZooKeeper can have rules of a resource that have not reached this broker yet.
        candidates |= dict.fromkeys(pattern for each in filters for pattern in each.named_patterns)
        for pattern in candidates:
            present = self._table.rules_of(pattern)

            def remaining(
                rules: frozenset[AclRule], pattern: ResourcePattern = pattern
            ) -> frozenset[AclRule]:
                return frozenset(rule for rule in rules if _first_match(filters, pattern, rule) is None)

            failure: ZooKeeperError | MalformedZnodeError | None = None
            try:
                before, after = await self._change(pattern, remaining)
                deleted = before - after
            except (ZooKeeperError, MalformedZnodeError) as error:
                failure = error
                deleted = present - remaining(present)
            for rule in deleted:
                index = _first_match(filters, pattern, rule)
                if index is not None:
                    results[index][AclBinding(pattern, rule)] = failure
        return list(results)

    async def _change(
        self, pattern: ResourcePattern, change: Callable[[frozenset[AclRule]], frozenset[AclRule]]
    ) -> tuple[frozenset[AclRule], frozenset[AclRule]]:
        before, after = await self._store.change(pattern, change)
        if self._table.rules_of(pattern) != after:
            self._table.set_rules(pattern, after)
        return before, after

    async def _changed(self, pattern: ResourcePattern) -> None:
        rules = await self._store.read(pattern)
        if self._table.rules_of(pattern) != rules:
            self._table.set_rules(pattern, rules)
            logger.info("the access rules of %s have changed: %d now", pattern, len(rules))


def _first_match(filters: Sequence[AclFilter], pattern: ResourcePattern, rule: AclRule) -> int | None:
    for index, each in enumerate(filters):
        if each.matches_pattern(pattern) and each.matches_rule(rule):
            return index
    return None
