"""Numbers about a client's work, under the names of Kafka's Java clients where they have one."""

from collections.abc import Callable, Mapping

NAMES: Mapping[str, str] = {
    "record-send-total": "records acknowledged",
    "byte-send-total": "bytes of batches sent, compressed, retries included",
    "record-error-total": "records that failed",
    "record-retry-total": "records in batches that were sent again",
    "request-total": "Produce and Fetch requests",
    "records-consumed-total": "records in the batches handed out",
    "bytes-consumed-total": "bytes of the batches received",
    "fetch-total": "Fetch requests answered",
    "commit-total": "commits answered without error",
    "rebalance-total": "generations joined",
}
"""The counters, and what they count."""


class Metrics:
    """Counters, and gauges computed when asked for."""

    __slots__ = ("_gauges", "counters")

    def __init__(self) -> None:
        self.counters: dict[str, int] = dict.fromkeys(NAMES, 0)
        self._gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] += count

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a function that computes a number when the metrics are read."""
        self._gauges[name] = read

    def remove_gauge(self, name: str) -> None:
        """Drop a gauge whose object has gone."""
        self._gauges.pop(name, None)

    def read(self) -> dict[str, float]:
        """Return all numbers by name."""
        return {**self.counters, **{name: read() for name, read in self._gauges.items()}}
