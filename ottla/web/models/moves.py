"""Plans of moves as a page shows them, and the fields of their forms."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin import ClusterDescription, TopicDescription
from ottla.placement import Plan, Replicas
from ottla.web.forms import FormError
from ottla.web.models.overview import leads_as_preferred
from wire.types import BrokerId, TopicPartition

ROWS_MAX: Final = 100
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """What a broker holds and leads, before and after."""

    broker: BrokerId
    replicas: tuple[int, int]
    leads: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that moves.

    Attributes:
        at: Which one.
        before: Its replicas.
        after: Its replicas after the move.
        copies: The brokers that it is copied to.
        size: The bytes of all copies.
    """

    at: TopicPartition
    before: Replicas
    after: Replicas
    copies: Replicas
    size: int


def shares(plan: Plan) -> list[BrokerShare]:
    """Return what each broker would hold and lead."""
    before, after = plan.before.values(), plan.result.values()
    held = [Counter(broker for replicas in each for broker in replicas) for each in (before, after)]
    led = [Counter(replicas[0] for replicas in each if replicas) for each in (before, after)]
    return [
        BrokerShare(broker, (held[0][broker], held[1][broker]), (led[0][broker], led[1][broker]))
        for broker in sorted({*held[0], *held[1]})
    ]


def move_rows(plan: Plan, sizes: Mapping[TopicPartition, int]) -> list[MoveRow]:
    """Return the partitions that move."""
    return [
        MoveRow(at, plan.before[at], after, plan.added(at), len(plan.added(at)) * sizes.get(at, 0))
        for at, after in sorted(plan.after.items())
    ]


def parse_targets(text: str) -> dict[TopicPartition, Replicas]:
    """Read the JSON of kafka-reassign-partitions.

    Raises:
        FormError: It is something else.
    """
    try:
        entries = json.loads(text)["partitions"]
        targets = {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(
                BrokerId(int(broker)) for broker in each["replicas"]
            )
            for each in entries
        }
    except (ValueError, KeyError, TypeError):
        raise FormError(
            'The plan is not written as {"version": 1, "partitions": '
            '[{"topic": "a", "partition": 0, "replicas": [1, 2]}]}.'
        ) from None
    for at, replicas in targets.items():
        if not replicas or len(set(replicas)) < len(replicas):
            raise FormError(f"The replicas of {at} are {list(replicas)}: each is a broker of its own.")
    if not targets:
        raise FormError("The plan moves nothing.")
    return targets


def parse_rate(text: str) -> int:
    """Read a throttle in MB a second; 0 means none, for which a negative number is returned.

    Raises:
        FormError: It is not a number.
    """
    try:
        rate = float(text)
    except ValueError:
        raise FormError(f"The throttle {text!r} is no number of MB a second.") from None
    if not 0 <= rate <= 1_000_000:
        raise FormError("The throttle is from 0, which is none, to 1,000,000 MB a second.")
    return int(rate * _MB) if rate else -1


@dataclass(frozen=True, slots=True)
class MisledRow:
    """A partition whose leader is not the preferred one, and why that cannot be changed; None if it can."""

    at: TopicPartition
    leader: BrokerId
    preferred: BrokerId
    obstacle: str | None


def misled(topics: Iterable[TopicDescription], cluster: ClusterDescription) -> Sequence[MisledRow]:
    """Return the partitions whose first replica does not lead them."""
    rows = []
    for topic in topics:
        for each in topic.partitions:
            if leads_as_preferred(each):
                continue
            preferred = each.replicas[0]
            obstacle = None
            if preferred not in cluster.brokers:
                obstacle = f"broker {preferred} is not alive"
            elif preferred not in each.isr:
                obstacle = f"broker {preferred} is not in sync"
            rows.append(
                MisledRow(TopicPartition(topic.name, each.partition), each.leader, preferred, obstacle)
            )
    return rows
