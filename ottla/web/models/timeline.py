"""The journals of a cluster's brokers as one time line, and the outages in it."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.commands.inspection.state_changes import Choice, line_of

Event = dict[str, Any]
KINDS: Final = ("partition", "replica", "role", "isr", "deleted", "state", "dropped")
_APART_MS: Final = 3_000
"""Events this far apart belong to different moments."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event: its time, broker, kind and text."""

    at_ms: int
    broker: int
    kind: str
    text: str
    since_first_ms: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Events that follow each other closely: a failover, a start, a deletion.

    Attributes:
        at_ms: When the first of them was.
        lasted_ms: How long after it the last one was.
        entries: The events, in order.
        left_out: How many more there were.
        leaderless: The partitions that went offline, or that got another leader.
    """

    at_ms: int
    lasted_ms: int
    entries: tuple[Entry, ...]
    left_out: int
    leaderless: int

    @property
    def title(self) -> str:
        """What it is about."""
        kinds = [entry.kind for entry in self.entries]
        if self.leaderless:
            count = "1 partition gets" if self.leaderless == 1 else f"{self.leaderless:,} partitions get"
            return f"{count} another leader"
        if "state" in kinds:
            return "Brokers change their state"
        return "Replicas fall behind or catch up" if "isr" in kinds else "Roles change"


def newest(events: Iterable[Event], choice: Choice, count: int) -> list[Event]:
    """Return the newest matching events, in order."""
    return sorted(heapq.nlargest(count, filter(choice.takes, events), key=_order), key=_order)


def _order(event: Event) -> tuple[int, int, int]:
    return event.get("at", 0), event.get("broker", -1), event.get("n", 0)


def moments(events: Sequence[Event], entries_max: int = 200) -> list[Moment]:
    """Divide events, which are in order, at the pauses between them; the newest moment first."""
    groups: list[list[Event]] = []
    for event in events:
        if not groups or event.get("at", 0) - groups[-1][-1].get("at", 0) > _APART_MS:
            groups.append([])
        groups[-1].append(event)
    return [_moment(group, entries_max) for group in reversed(groups)]


def _moment(events: list[Event], entries_max: int) -> Moment:
    first = events[0].get("at", 0)
    led = {
        (event.get("topic"), event.get("partition"))
        for event in events
        if event.get("kind") == "partition"
        and event.get("before") not in ("non-existent", "new", None)
        and "leader" in event
    }
    entries = tuple(
        Entry(
            event.get("at", 0),
            event.get("broker", -1),
            str(event.get("kind")),
            line_of(event).split("  ", 2)[-1],
            event.get("at", 0) - first,
        )
        for event in events[:entries_max]
    )
    return Moment(
        first, events[-1].get("at", 0) - first, entries, max(0, len(events) - entries_max), len(led)
    )
