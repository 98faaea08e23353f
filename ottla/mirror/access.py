"""Copying access rules and quotas of the source to the target.

Both are only added: what was removed at the source, or is the target's own, stays there.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.admin import Admin
from ottla.client.admin.acls import Acl, AclSelection
from ottla.mirror.selection import Selection
from wire.acl_codes import Operation, PatternType, Permission, ResourceType

_log = logging.getLogger(__name__)
_TOPICS: Final = AclSelection(resource_type=ResourceType.TOPIC)

Quotas = Sequence[tuple[Mapping[str, str | None], Mapping[str, float]]]
"""Entities with their quotas, as `Admin.describe_quotas` returns them."""
Entity = tuple[tuple[str, str | None], ...]


def mirrored_acls(selection: Selection, found: Iterable[Acl]) -> list[Acl]:
    """Return the rules for the target's topics, derived from those of the source.

    As in MirrorMaker 2, a permission to write to the original gives none for the copy, and a permission for ALL becomes
    one to read. The prefix of a prefixed rule is renamed as a topic of that name would be.
    """
    rules = []
    for acl in found:
        if acl.resource_type is not ResourceType.TOPIC or not selection.takes_topic(acl.name):
            continue
        if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            continue
        operation = acl.operation
        if acl.permission is Permission.ALLOW:
            if operation is Operation.WRITE:
                continue
            operation = Operation.READ if operation is Operation.ALL else operation
        rules.append(acl._replace(name=selection.target_name(acl.name), operation=operation))
    return list(dict.fromkeys(rules))


def missing_quotas(source: Quotas, target: Quotas) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Return the quotas that the target lacks or has with other values: entities, with the values to set."""
    there = {_entity(entity): values for entity, values in target}
    found = []
    for entity, values in source:
        known = there.get(_entity(entity), {})
        changes = {key: value for key, value in values.items() if known.get(key) != value}
        if changes:
            found.append((dict(entity), changes))
    return found


def _entity(parts: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


class AccessKeeper:
    """Keeps access rules and quotas.

    Args:
        source: The source.
        target: The target.
        selection: What is mirrored.
        acls: Whether rules of topics are kept in step.
        quotas: Whether quotas of users, clients and addresses are kept in step.
    """

    def __init__(
        self, source: Admin, target: Admin, selection: Selection, *, acls: bool, quotas: bool
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._acls = acls
        self._quotas = quotas

    async def keep(self) -> int:
        """Bring the target in step; return how many rules and entities changed.

        Raises:
            ClientError: A cluster refuses, or has no authorizer.
        """
        count = 0
        if self._acls:
            wanted = mirrored_acls(self._selection, await self._source.list_acls(_TOPICS))
            known = set(await self._target.list_acls(_TOPICS))
            new = [acl for acl in wanted if acl not in known]
            if new:
                await self._target.create_acls(new)
                for acl in new:
                    _log.info("access rule for %s of topic %s", acl.principal, acl.name)
            count += len(new)
        if self._quotas:
            changed = missing_quotas(
                await self._source.describe_quotas({}), await self._target.describe_quotas({})
            )
            for entity, values in changed:
                await self._target.alter_quotas(entity, values)
                _log.info("quotas %s of %s", values, entity)
            count += len(changed)
        return count
