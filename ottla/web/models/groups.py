"""Groups in a list, and the partitions of one with the history of their lag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.admin import ListedGroup
from ottla.commands.groups.positions import PositionRow
from ottla.web.models.series import Series
from wire.types import TopicPartition


@dataclass(slots=True)
class GroupLag:
    """A group's lag: the last reading and the history.

    Attributes:
        rows: Its partitions.
        total: The sum.
        history: The sum over time, by wall-clock seconds.
        partitions: The same of each partition.
    """

    rows: list[PositionRow] = field(default_factory=list)
    total: int | None = None
    history: Series = field(default_factory=Series)
    partitions: dict[TopicPartition, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list.

    Attributes:
        group: What its coordinator says.
        lag: The sum of its partitions; None where it is not known.
        history: The points of the lag's small chart.
    """

    group: ListedGroup
    lag: int | None
    history: str


@dataclass(frozen=True, slots=True)
class LagRow:
    """A partition of a group, with the points of its lag's small chart."""

    position: PositionRow
    history: str


def group_rows(listed: Sequence[ListedGroup], lags: Mapping[str, GroupLag], search: str) -> list[GroupRow]:
    """Return the groups whose names contain a text, ignoring case."""
    rows = []
    for each in listed:
        if search.lower() in each.group_id.lower():
            lag = lags.get(each.group_id)
            points = "" if lag is None else lag.history.spark
            rows.append(GroupRow(each, None if lag is None else lag.total, points))
    return rows


def lag_rows(positions: Sequence[PositionRow], lag: GroupLag | None) -> list[LagRow]:
    """Return a group's partitions with their histories."""
    rows = []
    for each in positions:
        series = None if lag is None else lag.partitions.get(TopicPartition(each.topic, each.partition))
        points = "" if series is None else series.spark
        rows.append(LagRow(each, points))
    return rows
