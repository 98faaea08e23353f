"""The leaders of a topic's partitions, as a row of cells."""

from dataclasses import dataclass

from ottla.client.admin import ClusterDescription, TopicDescription
from wire.types import BrokerId

CELLS_MAX = 96


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition.

    Attributes:
        partition: Its number.
        leader: Its leader; -1 for none.
        state: ok, behind (a replica is out of sync) or offline.
        text: All of it, as a sentence.
    """

    partition: int
    leader: BrokerId
    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Leadership:
    """A topic's cells, up to a maximum."""

    topic: str
    cells: tuple[Cell, ...]
    left_out: int


def leadership(topic: TopicDescription, cluster: ClusterDescription) -> Leadership:
    """Return the cells of a topic."""
    cells = []
    for each in topic.partitions[:CELLS_MAX]:
        missing = [broker for broker in each.replicas if broker not in each.isr]
        state = "offline" if each.leader not in cluster.brokers else "behind" if missing else "ok"
        who = f"led by broker {each.leader}" if each.leader >= 0 else "no leader"
        isr = ", ".join(map(str, each.isr)) or "nobody"
        cells.append(
            Cell(each.partition, each.leader, state, f"{topic.name}-{each.partition}: {who}; in sync: {isr}")
        )
    return Leadership(topic.name, tuple(cells), max(0, len(topic.partitions) - CELLS_MAX))
