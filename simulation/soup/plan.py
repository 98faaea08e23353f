"""The plan of one run: drawn from a seed, written as text, read back, and made shorter.

A plan is data. The seed is still needed to replay one: delays, splits and what a crash leaves of unsynced data are
drawn from it while the plan is carried out.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any, Final

CONTROLLER: Final = -1
"""In place of a broker's id: the broker that is the controller at that time."""
MOST_BROKERS: Final = 5
ORDERS_PARTITIONS: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Happening:
    """One fault or one operation.

    Attributes:
        at: When, in seconds after the clients have begun.
        kind: Its name in `FAULTS` or `OPERATIONS`.
        broker: The broker that it concerns, if any; `CONTROLLER` for the controller of the moment.
        other: Another broker, or a partition.
        lasts: How long a fault lasts, in seconds.
        amount: How much of it: milliseconds of a jump, or an operation's number.
    """

    at: float
    kind: str
    broker: int = 0
    other: int = 0
    lasts: float = 0.0
    amount: int = 0

    def __str__(self) -> str:
        who = "the controller" if self.broker == CONTROLLER else f"broker {self.broker}"
        text = f"{self.at:7.3f} s  {self.kind:<14} {who}"
        if self.kind in TWO_ENDED:
            text += f", {self.other}"
        if self.lasts:
            text += f", for {self.lasts:.3f} s"
        return text + (f", {self.amount}" if self.amount else "")


TWO_ENDED: Final = frozenset({"cut", "one-way-cut", "reassign", "elect", "move-directory", "add-partitions"})


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Attributes:
        seed: Of all chance while it runs.
        brokers: How many brokers there are.
        durable: Whether records are synced before they are acknowledged; then any machines may lose power.
        seconds: How long faults go on, before everything is healed.
        happenings: Faults and operations, by time.
    """

    seed: int
    brokers: int
    durable: bool
    seconds: float
    happenings: tuple[Happening, ...] = field(default_factory=tuple)

    def with_happenings(self, happenings: Sequence[Happening]) -> "Plan":
        """Return the same run with other happenings."""
        return replace(self, happenings=tuple(sorted(happenings)))

    def as_toml(self) -> str:
        """Return the plan as the text of a scenario file, which `read_plan` reads."""
        lines = [
            f"seed = {self.seed}",
            f"brokers = {self.brokers}",
            f"durable = {str(self.durable).lower()}",
            f"seconds = {self.seconds!r}",
        ]
        for each in self.happenings:
            lines += ["", "[[happening]]"]
            for name in (each.name for each in fields(Happening)):
                value = getattr(each, name)
                if name in ("at", "kind") or value:
                    lines.append(f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value!r}")
        return "\n".join(lines) + "\n"


class PlanError(Exception):
    """A file is not a valid scenario; the text says why."""


def read_plan(text: str, kinds: Collection[str]) -> Plan:
    """Read a plan from the text of a scenario file.

    Args:
        text: The file.
        kinds: The faults and operations that there are.

    Raises:
        PlanError: it is not a valid scenario.
    """
    try:
        found: dict[str, Any] = tomllib.loads(text)
        happenings = tuple(Happening(**each) for each in found.pop("happening", []))
        plan = Plan(happenings=happenings, **found)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise PlanError(f"this is no scenario: {error}") from None
    for each in happenings:
        if each.kind not in kinds:
            raise PlanError(f"there is no {each.kind!r}; there are {', '.join(sorted(kinds))}")
        if not CONTROLLER <= each.broker < plan.brokers:
            raise PlanError(f"there is no broker {each.broker} among {plan.brokers}")
    return plan


Draw = Callable[[Random, int], Mapping[str, Any]]
"""Draws the fields of a happening other than its time and kind, for a number of brokers."""


def make_plan(
    seed: int,
    faults: Mapping[str, Draw],
    operations: Mapping[str, Draw],
    *,
    seconds: float,
    faults_max: int,
    operations_max: int,
) -> Plan:
    """Draw a plan from a seed.

    Args:
        seed: The seed.
        faults: The kinds of faults that may occur, and what draws them.
        operations: The same of operations.
        seconds: How long faults go on.
        faults_max: The most faults.
        operations_max: The most operations.
    """
    chance = Random(f"plan {seed}")
    brokers = chance.choice((3, 3, 4, MOST_BROKERS))
    durable = chance.random() < 0.3
    happenings = []
    # A run with few kinds of faults goes deeper into each than one with all of them.
    kinds = sorted(faults)
    chosen = chance.sample(kinds, chance.randint(1, len(kinds))) if kinds else []
    for _ in range(chance.randint(1, faults_max) if chosen else 0):
        kind = chance.choice(chosen)
        at = round(chance.uniform(0, seconds), 3)
        happenings.append(Happening(at=at, kind=kind, **faults[kind](chance, brokers)))
    for number in range(chance.randint(0, operations_max) if operations else 0):
        kind = chance.choice(sorted(operations))
        at = round(chance.uniform(0, seconds), 3)
        fields_of = {"amount": number, **operations[kind](chance, brokers)}
        happenings.append(Happening(at=at, kind=kind, **fields_of))
    return Plan(seed, brokers, durable, seconds, tuple(sorted(happenings)))
