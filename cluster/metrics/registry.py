"""Metrics that cost an attribute addition where they count, and nothing until they are scraped.

A family has a name, a kind and label names; its children hold the numbers. A hot path keeps its child at hand
and writes ``child.value += n``. A number that is known elsewhere anyway (a list's length, a log's end) is not kept up
to date here: a probe reads it at scrape time.

Names are those that the usual JMX exporters give Kafka's, in lower case, so that existing dashboards find
them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

LATENCY_BOUNDS_MS: Final = (
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
    5000.0,
    30000.0,
)
"""Upper bounds of the buckets that latencies are counted in."""

VALUES_PER_GROUP: Final = 500
"""How many numbers `Registry.value_groups` yields at a time."""

Labels: TypeAlias = tuple[str, ...]
Probe: TypeAlias = Callable[[], float | Mapping[Labels, float]]
"""Returns a number or, for a family with labels, a number for each tuple of label values."""


class Kind(Enum):
    """What a family's numbers mean; the values are Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Counter:
    """A number that only grows.

    Attributes:
        value: The count; written directly.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    """A number that goes up and down.

    Attributes:
        value: The number; written directly.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Histogram:
    """How often values fell between bounds.

    Attributes:
        bounds: The buckets' upper bounds, rising; a last bucket takes what is above them.
        counts: How many values fell into each bucket.
        sum: The sum of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_MS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def quantile(self, share: float) -> float:
        """Return the upper bound of the bucket that holds the given share's value; 0 without values."""
        wanted = share * self.count
        seen = 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if count and seen >= wanted:
                return bound
        return self.bounds[-1] if wanted else 0.0


class Sample(NamedTuple):
    """One line of an exposition.

    Attributes:
        suffix: What follows the family's name.
        labels: Names and values.
        value: The number.
    """

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float


Child = TypeVar("Child", Counter, Gauge, Histogram)


class Family(Generic[Child]):
    """Metrics of one name. Made by a `Registry`.

    Attributes:
        name: As exposed, without the suffixes that a kind adds.
        text: What it measures, for people.
        label_names: What its children differ by.
    """

    __slots__ = ("_children", "_make", "kind", "label_names", "name", "text")

    def __init__(
        self, name: str, text: str, kind: Kind, label_names: Labels, make: Callable[[], Child]
    ) -> None:
        self.name = name
        self.text = text
        self.kind = kind
        self.label_names = label_names
        self._make: Callable[[], Child] = make
        self._children: dict[Labels, Child] = {}
        if not label_names:
            self._children[()] = make()

    @property
    def only(self) -> Child:
        """The one child of a family without labels."""
        return self._children[()]

    def of(self, *values: str) -> Child:
        """Return the child with these label values; made on first use. Hot paths keep it."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, not {len(values)} values")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Remove a child whose subject is gone. Does nothing if there is none."""
        self._children.pop(values, None)

    def samples(self) -> Iterator[Sample]:
        """Return the numbers as they are."""
        for values, child in tuple(self._children.items()):
            labels = tuple(zip(self.label_names, values, strict=True))
            if isinstance(child, Histogram):
                yield from _histogram_samples(labels, child)
            else:
                yield Sample("_total" if self.kind is Kind.COUNTER else "", labels, child.value)


class ProbeFamily:
    """Numbers that are computed at scrape time. Made by a `Registry`."""

    __slots__ = ("_read", "kind", "label_names", "name", "text")

    def __init__(self, name: str, text: str, kind: Kind, label_names: Labels, read: Probe) -> None:
        self.name = name
        self.text = text
        self.kind = kind
        self.label_names = label_names
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """Call the reader, and return its numbers."""
        suffix = "_total" if self.kind is Kind.COUNTER else ""
        read = self._read()
        if isinstance(read, Mapping):
            for values, number in read.items():
                yield Sample(suffix, tuple(zip(self.label_names, values, strict=True)), number)
        else:
            yield Sample(suffix, (), read)


AnyFamily: TypeAlias = Family[Counter] | Family[Gauge] | Family[Histogram] | ProbeFamily


class Registry:
    """All metrics of one broker, each declared once."""

    __slots__ = ("_families",)

    def __init__(self) -> None:
        self._families: dict[str, AnyFamily] = {}

    def __iter__(self) -> Iterator[AnyFamily]:
        return iter(tuple(self._families.values()))

    def counter(self, name: str, text: str, label_names: Labels = ()) -> Family[Counter]:
        """Declare counters.

        Raises:
            ValueError: the name is taken.
        """
        return self._add(Family(name, text, Kind.COUNTER, label_names, Counter))

    def gauge(self, name: str, text: str, label_names: Labels = ()) -> Family[Gauge]:
        """Declare gauges that are set by the code they describe. Raises ValueError if the name is taken."""
        return self._add(Family(name, text, Kind.GAUGE, label_names, Gauge))

    def histogram(
        self,
        name: str,
        text: str,
        label_names: Labels = (),
        bounds: Sequence[float] = LATENCY_BOUNDS_MS,
    ) -> Family[Histogram]:
        """Declare histograms. Raises ValueError if the name is taken."""
        return self._add(Family(name, text, Kind.HISTOGRAM, label_names, lambda: Histogram(bounds)))

    def probe(
        self, name: str, text: str, read: Probe, label_names: Labels = (), *, kind: Kind = Kind.GAUGE
    ) -> None:
        """Declare a metric whose value is what `read` returns. Raises ValueError if the name is taken."""
        self._add(ProbeFamily(name, text, kind, label_names, read))

    def values(self, names: Iterable[str] | None = None) -> dict[str, float]:
        """Return numbers by name and labels, as the management socket shows them; all if no names are given."""
        found: dict[str, float] = {}
        for some in self.value_groups(names):
            found.update(some)
        return found

    def value_groups(self, names: Iterable[str] | None = None) -> Iterator[dict[str, float]]:
        """Yield what `values` returns in pieces, so that the loop can turn between them."""
        wanted = None if names is None else frozenset(names)
        for family in self:
            if wanted is not None and family.name not in wanted:
                continue
            found: dict[str, float] = {}
            for sample in family.samples():
                labels = ",".join(f"{name}={value}" for name, value in sample.labels)
                found[f"{family.name}{sample.suffix}" + (f"{{{labels}}}" if labels else "")] = sample.value
                if len(found) >= VALUES_PER_GROUP:
                    yield found
                    found = {}
            yield found

    def _add(self, family: "_Added") -> "_Added":
        if family.name in self._families:
            raise ValueError(f"the metric {family.name} is declared twice")
        self._families[family.name] = family
        return family


_Added = TypeVar("_Added", Family[Counter], Family[Gauge], Family[Histogram], ProbeFamily)


def _histogram_samples(labels: tuple[tuple[str, str], ...], histogram: Histogram) -> Iterator[Sample]:
    seen = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        seen += count
        shown = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield Sample("_bucket", (*labels, ("le", shown)), seen)
    yield Sample("_count", labels, seen)
    yield Sample("_sum", labels, histogram.sum)
