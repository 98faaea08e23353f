"""A mirror's counters for Prometheus, read at each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.mirror.counters import MirrorCounters
from ottla.mirror.selection import Selection

_COUNTERS = {
    "records": "Records that the target has acknowledged.",
    "byte_count": "Their bytes.",
    "dropped": "Records that the target refused.",
    "transactions": "Committed transactions.",
    "aborted": "Aborted transactions.",
    "checkpoints": "Checkpoints written.",
}


class _Collector:
    def __init__(self, counters: MirrorCounters, selection: Selection) -> None:
        self._counters = counters
        self._labels = [selection.source, selection.target]

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as they are now."""
        for name, text in _COUNTERS.items():
            shown = "bytes" if name == "byte_count" else name
            counter = CounterMetricFamily(f"ottla_mirror_{shown}", text, labels=["source", "target"])
            counter.add_metric(self._labels, getattr(self._counters, name))
            yield counter
        names = ["source", "target", "topic", "partition"]
        lag = GaugeMetricFamily(
            "ottla_mirror_lag", "Offsets behind the source's end; -1: unknown.", labels=names
        )
        for place, behind in dict(self._counters.lag).items():
            lag.add_metric([*self._labels, place.topic, str(place.partition)], behind)
        yield lag


def registry(counters: MirrorCounters, selection: Selection) -> CollectorRegistry:
    """Return a registry of a flow's metrics."""
    made = CollectorRegistry()
    made.register(_Collector(counters, selection))
    return made
