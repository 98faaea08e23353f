"""``ottla configs`` for users, client ids and addresses: their quotas, alone and in combinations.

    --entity-type users --entity-name ann --entity-type clients --entity-default
    --add-config producer_byte_rate=1048576 --delete-config request_percentage

An entity is its parts by Kafka's names; the name None is the default.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.failure import CommandError

if TYPE_CHECKING:
    from ottla.client.admin import Admin

USERS: Final = "users"
CLIENTS: Final = "clients"
ADDRESSES: Final = "ips"
PARTS: Final = {USERS: "user", CLIENTS: "client-id", ADDRESSES: "ip"}
"""The parts of a quota's entity, by the types of the command line."""
_TITLES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_OF_CLIENTS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_OF_ADDRESSES: Final = frozenset({"connection_creation_rate"})
QUOTAS: Final = _OF_CLIENTS | _OF_ADDRESSES
_PLAIN_MAX: Final = 1e7
_PLAIN_MIN: Final = 1e-3

Pairs = Sequence[tuple[str, str | None]]
"""Types and names as they were given: no name means every one, the empty one the default."""


def check_pairs(pairs: Pairs) -> None:
    """Require a combination that can have quotas.

    Raises:
        click.UsageError: it cannot.
    """
    kinds = [kind for kind, _ in pairs]
    if len(set(kinds)) != len(kinds):
        raise click.UsageError("a type of entity is given twice")
    if len(pairs) > 1 and set(kinds) != {USERS, CLIENTS}:
        raise click.UsageError("only users and clients go together")


def read_quotas(pairs: Pairs, settings: Mapping[str, str]) -> dict[str, float]:
    """Return the values of quotas.

    Raises:
        CommandError: there is no such quota for such an entity, or its value is no number.
    """
    served = _OF_ADDRESSES if pairs[0][0] == ADDRESSES else _OF_CLIENTS
    values = {}
    for name, text in settings.items():
        _require_quota(name, served)
        try:
            values[name] = float(text)
        except ValueError:
            raise CommandError(f"{name} is a number, not {text!r}") from None
        if not math.isfinite(values[name]) or values[name] <= 0:
            raise CommandError(f"{name} is above 0, not {text}; --delete-config removes a quota")
    return values


async def alter_quotas(
    admin: "Admin", pairs: Pairs, settings: Mapping[str, str], removed: Iterable[str], *, dry_run: bool
) -> None:
    """Set and remove quotas of one entity.

    Raises:
        CommandError: something is no quota, or is to be removed and not there.
    """
    served = _OF_ADDRESSES if pairs[0][0] == ADDRESSES else _OF_CLIENTS
    changes: dict[str, float | None] = dict(read_quotas(pairs, settings))
    names = list(removed)
    for name in names:
        _require_quota(name, served)
    entity = {PARTS[kind]: name or None for kind, name in pairs}
    if names:
        found = await admin.describe_quotas(entity, strict=True)
        present = found[0][1] if found else {}
        absent = [name for name in names if name not in present]
        if absent:
            raise CommandError(f"there is nothing to delete, as it is not set: {', '.join(absent)}")
    changes |= dict.fromkeys(names)
    await admin.alter_quotas(entity, changes, validate_only=dry_run)


async def describe_quotas(
    admin: "Admin", pairs: Pairs
) -> "list[tuple[dict[str, str | None], dict[str, float]]]":
    """Return the entities that have quotas, with them; a type without a name is every entity of it."""
    wanted: dict[str, Any] = {PARTS[kind]: object if name is None else name or None for kind, name in pairs}
    return await admin.describe_quotas(wanted, strict=True)


def quota_lines(found: "Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]]") -> list[str]:
    """Return a line for each entity, as Kafka's tool prints it."""
    lines = []
    for entity, values in found:
        named = ", ".join(
            f"the default {title}" if entity[part] is None else f"{title} '{entity[part]}'"
            for part, title in _TITLES.items()
            if part in entity
        )
        listed = ", ".join(f"{name}={java_double(value)}" for name, value in values.items())
        lines.append(f"Quota configs for {named} are {listed}")
    return lines


def clients_as_json(
    found: "Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]]",
    users: Mapping[str, Mapping[str, int]],
) -> str:
    """Return quotas, and the iterations of users' SCRAM credentials by mechanism, for programs."""
    quotas = [{"entity": dict(entity), "quotas": dict(values)} for entity, values in found]
    return json.dumps({"quotas": quotas, "scram": users}, indent=2)


def completed_line(pairs: Pairs) -> str:
    """Return what is printed when quotas were changed: as in Kafka, the first part is named."""
    kind, name = pairs[0]
    if not name:
        return f"Completed updating default config for {kind} in the cluster."
    return f"Completed updating config for {kind.removesuffix('s')} {name}."


def java_double(value: float) -> str:
    """Write a number as Java's `Double.toString` does: 1048576.0, 1.048576E7."""
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        return f"{value!r}"
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(float(value))
    if "e" in shortest:
        digits = shortest.partition("e")[0]
    else:
        plain = shortest.replace("-", "").replace(".", "").strip("0")
        digits = ("-" if value < 0 else "") + plain[0] + "." + (plain[1:] or "0")
    if "." not in digits:
        digits += ".0"
    return f"{digits}E{int(exponent)}"


def _require_quota(name: str, served: frozenset[str]) -> None:
    if name not in served:
        raise CommandError(f"{name} is no quota of such an entity: {', '.join(sorted(served))}")
