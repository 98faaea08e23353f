"""The list of topics, and the partitions of one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin import FoundOffset, PartitionDescription
from ottla.client.errors import ClientError
from ottla.web.forms import FormError
from ottla.web.models.overview import TopicSummary
from ottla.web.models.series import Series
from wire.types import BrokerId, TopicPartition

Sizes = Mapping[TopicPartition, Mapping[BrokerId, int]]
Offsets = Mapping[TopicPartition, FoundOffset | ClientError]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in the list.

    Attributes:
        summary: What the cluster says of it.
        size: The bytes of one copy of it; None while that is not known.
        rate: Records a second; None likewise.
        rates: The rate over time.
    """

    summary: TopicSummary
    size: int | None
    rate: float | None
    rates: Series | None


SORTS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    "name": lambda row: row.summary.name,
    "partitions": lambda row: (-row.summary.partitions, row.summary.name),
    "health": lambda row: (-row.summary.offline, -row.summary.under_replicated, row.summary.name),
    "size": lambda row: (-(row.size or 0), row.summary.name),
    "rate": lambda row: (-(row.rate or 0), row.summary.name),
}


def topic_rows(
    summaries: Sequence[TopicSummary],
    rates: Mapping[str, Series],
    sizes: Sizes,
    *,
    search: str,
    with_internal: bool,
    only: str,
    sort: str,
) -> list[TopicRow]:
    """Return the matching topics, in order.

    Args:
        summaries: All topics.
        rates: Records a second, by topic.
        sizes: Bytes of replicas.
        search: A text that names contain, ignoring case.
        with_internal: Whether to list the cluster's own topics.
        only: ``behind`` for unhealthy topics; anything else for all.
        sort: One of `SORTS`.
    """
    totals: dict[str, int] = {}
    for at, replicas in sizes.items():
        totals[at.topic] = totals.get(at.topic, 0) + max(replicas.values(), default=0)
    rows = []
    for each in summaries:
        if each.internal and not with_internal:
            continue
        if search.lower() not in each.name.lower() or (only == "behind" and each.health == "ok"):
            continue
        series = rates.get(each.name)
        rows.append(TopicRow(each, totals.get(each.name), None if series is None else series.last, series))
    return sorted(rows, key=SORTS[sort])


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of a topic.

    Attributes:
        partition: What the cluster says of it.
        start: Its first offset; None if its leader does not answer.
        end: The offset behind its last record; None likewise.
        size: The bytes of its largest replica; None while that is not known.
        problem: Why its offsets are not known; None if they are.
    """

    partition: PartitionDescription
    start: int | None
    end: int | None
    size: int | None
    problem: str | None

    @property
    def records(self) -> int | None:
        """How many offsets it spans; with compaction and markers there are fewer records."""
        return None if self.start is None or self.end is None else self.end - self.start

    @property
    def state(self) -> str:
        """Its state: ok, behind or offline."""
        if self.partition.leader < 0:
            return "offline"
        return "behind" if len(self.partition.isr) < len(self.partition.replicas) else "ok"


def partition_rows(
    topic: str, partitions: Sequence[PartitionDescription], starts: Offsets, ends: Offsets, sizes: Sizes
) -> list[PartitionRow]:
    """Combine what is known about each partition."""
    rows = []
    for each in partitions:
        at = TopicPartition(topic, each.partition)
        start, end = starts.get(at), ends.get(at)
        problem = next((str(found) for found in (start, end) if isinstance(found, ClientError)), None)
        rows.append(
            PartitionRow(
                each,
                start.offset if isinstance(start, FoundOffset) else None,
                end.offset if isinstance(end, FoundOffset) else None,
                max(sizes[at].values(), default=0) if at in sizes else None,
                problem,
            )
        )
    return rows


def parse_settings(text: str) -> dict[str, str]:
    """Read settings, ``name=value`` a line.

    Raises:
        FormError: A line is written otherwise.
    """
    settings = {}
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise FormError(f"The setting {line.strip()!r} is not written as name=value.")
            settings[name.strip()] = value.strip()
    return settings
