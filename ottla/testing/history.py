"""The history checker: what was sent, what was acknowledged, what was read, and what that says about the cluster.

The anomalies are those that Jepsen's queue workload names for Kafka. A history knows producers by name; a producer
sends numbered records, whose numbers rise on each partition. The checker needs no clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from wire.types import TopicPartition


class Mark(NamedTuple):
    """The identity of one record: who sent it and as which number. A test puts it into the record's value."""

    producer: str
    number: int


class HistoryViolationError(AssertionError):
    """The history shows something that the cluster promised not to do; the text lists it."""


@dataclass(slots=True)
class Anomalies:
    """What was found, by kind; every list is empty for a cluster that kept its promises."""

    lost: list[str] = field(default_factory=list)
    """Acknowledged, and absent from the log."""
    duplicate: list[str] = field(default_factory=list)
    """One record at two offsets."""
    reordered: list[str] = field(default_factory=list)
    """Two records of one producer on one partition, the later one first."""
    misplaced: list[str] = field(default_factory=list)
    """Acknowledged at one offset, read at another."""
    phantom: list[str] = field(default_factory=list)
    """Read, and never sent to that partition."""
    diverged: list[str] = field(default_factory=list)
    """Two readings of one partition that hold different records at one offset."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def text(self, most: int = 5) -> str:
        """Name each kind with its count and its first few cases."""
        lines = []
        for name in self.__slots__:
            cases: list[str] = getattr(self, name)
            if cases:
                lines.append(f"{name}: {len(cases)}")
                lines.extend(f"    {case}" for case in cases[:most])
        return "\n".join(lines)


class History:
    """Collects what producers and readers saw; not thread-safe, but each method may be called from a callback.

    Example:
        history.sent(mark, tp); history.acknowledged(mark, tp, offset); ...
        history.read("leader", tp, [(0, mark), ...]); history.check()
    """

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, set[Mark]] = {}
        self._acknowledged: dict[TopicPartition, dict[Mark, int]] = {}
        self._readings: dict[TopicPartition, dict[str, list[tuple[int, Mark]]]] = {}

    def sent(self, mark: Mark, partition: TopicPartition) -> None:
        """Note that a record was handed to a client; whether it arrives is not known yet."""
        self._sent.setdefault(partition, set()).add(mark)

    def acknowledged(self, mark: Mark, partition: TopicPartition, offset: int) -> None:
        """Note that the cluster promised to keep a record, and at which offset (-1: it did not say)."""
        self._acknowledged.setdefault(partition, {})[mark] = offset

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged."""
        return sum(len(marks) for marks in self._acknowledged.values())

    def read(self, reader: str, partition: TopicPartition, records: Iterable[tuple[int, Mark]]) -> None:
        """Note one whole reading of a partition, offsets rising: by a consumer, or out of a replica's files."""
        self._readings.setdefault(partition, {}).setdefault(reader, []).extend(records)

    def anomalies(self) -> Anomalies:
        """Compare everything that was read with everything that was promised."""
        found = Anomalies()
        for partition in sorted(set(self._acknowledged) | set(self._readings)):
            readings = self._readings.get(partition, {})
            if not readings and self._acknowledged.get(partition):
                found.lost.append(f"{partition}: nobody read it")
            for reader, records in readings.items():
                self._check_reading(found, partition, reader, records)
            self._compare_readings(found, partition, readings)
        return found

    def check(self) -> None:
        """Require that nothing is wrong.

        Raises:
            HistoryViolationError: with every kind of anomaly, its count and its first cases.
        """
        found = self.anomalies()
        if found:
            raise HistoryViolationError(found.text())

    def _check_reading(
        self, found: Anomalies, partition: TopicPartition, reader: str, records: list[tuple[int, Mark]]
    ) -> None:
        acknowledged = self._acknowledged.get(partition, {})
        sent = self._sent.get(partition, set())
        offsets: dict[Mark, int] = {}
        latest: dict[str, int] = {}
        for offset, mark in records:
            if mark not in sent:
                found.phantom.append(f"{partition} {reader}: {mark} at {offset}")
            if mark in offsets:
                found.duplicate.append(f"{partition} {reader}: {mark} at {offsets[mark]} and {offset}")
                continue
            offsets[mark] = offset
            if latest.get(mark.producer, -1) > mark.number:
                found.reordered.append(
                    f"{partition} {reader}: {mark} at {offset} after {latest[mark.producer]}"
                )
            latest[mark.producer] = max(latest.get(mark.producer, -1), mark.number)
        for mark, promised in acknowledged.items():
            offset = offsets.get(mark, -1)
            if offset < 0:
                found.lost.append(f"{partition} {reader}: {mark}, acknowledged at {promised}")
            elif promised not in (-1, offset):
                found.misplaced.append(
                    f"{partition} {reader}: {mark}, acknowledged at {promised}, is at {offset}"
                )

    @staticmethod
    def _compare_readings(
        found: Anomalies, partition: TopicPartition, readings: dict[str, list[tuple[int, Mark]]]
    ) -> None:
        names = sorted(readings)
        for name in names[1:]:
            first = dict(readings[names[0]])
            for offset, mark in readings[name]:
                if first.get(offset, mark) != mark:
                    found.diverged.append(
                        f"{partition} at {offset}: {names[0]} has {first[offset]}, {name} has {mark}"
                    )
