"""The changes from one look at a cluster to the next, as sentences."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ottla.client.admin import PartitionDescription
from ottla.web.models.overview import Overview
from wire.types import BrokerId, WallMs

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that was seen to have changed.

    Attributes:
        wall_ms: When it was seen.
        tone: good, bad or plain.
        text: What.
    """

    wall_ms: WallMs
    tone: str
    text: str


def happenings(before: Overview, after: Overview) -> list[Happening]:
    """Return what has changed between two looks, the most important first."""
    return [Happening(after.wall_ms, tone, text) for tone, text in _changes(before, after)]


def _changes(before: Overview, after: Overview) -> Iterator[tuple[str, str]]:
    for broker in sorted(before.cluster.brokers.keys() - after.cluster.brokers.keys()):
        yield "bad", f"Broker {broker} has left the cluster."
    for broker in sorted(after.cluster.brokers.keys() - before.cluster.brokers.keys()):
        yield "good", f"Broker {broker} has joined the cluster."
    old, new = before.cluster.controller_id, after.cluster.controller_id
    if old != new:
        yield (
            ("bad", "There is no controller.")
            if new < 0
            else ("plain", f"Broker {new} is the controller now.")
        )
    created = sorted(after.topics.keys() - before.topics.keys())
    deleted = sorted(before.topics.keys() - after.topics.keys())
    if created:
        yield "plain", f"Created: {_named(created)}."
    if deleted:
        yield "plain", f"Deleted: {_named(deleted)}."
    yield from _moves(before, after)


def _moves(before: Overview, after: Overview) -> Iterator[tuple[str, str]]:
    moved: Counter[tuple[BrokerId, BrokerId]] = Counter()
    lost: Counter[BrokerId] = Counter()
    left: Counter[BrokerId] = Counter()
    joined: Counter[BrokerId] = Counter()
    for was, now in _pairs(before, after):
        if was.leader != now.leader:
            if now.leader < 0:
                lost[was.leader] += 1
            else:
                moved[was.leader, now.leader] += 1
        left.update(broker for broker in was.isr if broker not in now.isr and broker in now.replicas)
        joined.update(broker for broker in now.isr if broker not in was.isr)
    for broker, count in sorted(lost.items()):
        yield "bad", f"{_partitions(count)} of broker {broker} {_have(count)} no leader."
    for (old, new), count in sorted(moved.items()):
        owner = f"of broker {old}" if old >= 0 else "that had no leader"
        yield "plain", f"Broker {new} leads {_partitions(count)} {owner}."
    for broker, count in sorted(left.items()):
        yield "bad", f"Broker {broker} is out of the ISR of {_partitions(count)}."
    for broker, count in sorted(joined.items()):
        yield "good", f"Broker {broker} is back in the ISR of {_partitions(count)}."


def _pairs(before: Overview, after: Overview) -> Iterator[tuple[PartitionDescription, PartitionDescription]]:
    for name, topic in after.topics.items():
        earlier = before.topics.get(name)
        if earlier is None or earlier.topic_id != topic.topic_id:
            continue
        by_number = {each.partition: each for each in earlier.partitions}
        for now in topic.partitions:
            was = by_number.get(now.partition)
            if was is not None and was != now:
                yield was, now


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
