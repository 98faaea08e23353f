"""What kafka-producer-perf-test counts and prints: windows of five seconds, a total, percentiles. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

WINDOW_MS: Final = 5_000
SAMPLES_MAX: Final = 500_000
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
_MEGABYTE: Final = 1024 * 1024


@dataclass(slots=True)
class _Span:
    """Acknowledged records between two moments."""

    begin_ms: int
    count: int = 0
    byte_count: int = 0
    latency_ms_total: int = 0
    latency_ms_max: int = 0

    def add(self, count: int, byte_count: int, latency_ms_total: int, latency_ms_max: int) -> None:
        self.count += count
        self.byte_count += byte_count
        self.latency_ms_total += latency_ms_total
        self.latency_ms_max = max(self.latency_ms_max, latency_ms_max)

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Return records and megabytes a second."""
        elapsed_s = max(now_ms - self.begin_ms, 1) / 1000
        return self.count / elapsed_s, self.byte_count / elapsed_s / _MEGABYTE

    @property
    def latency_ms_average(self) -> float:
        return self.latency_ms_total / self.count if self.count else 0.0


@dataclass(slots=True)
class ProductionStatistics:
    """Counts acknowledgements.

    Args:
        begin_ms: When the first record was sent.
        record_count: How many will be sent: of more than 500,000 only every nth latency is kept.
    """

    begin_ms: int
    record_count: int
    _total: _Span = field(init=False)
    _window: _Span = field(init=False)
    _latencies: list[int] = field(init=False, default_factory=list)
    _every: int = field(init=False)
    _skip: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._total = _Span(self.begin_ms)
        self._window = _Span(self.begin_ms)
        self._every = max(1, self.record_count // SAMPLES_MAX)

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return self._total.count

    def acknowledged(self, sent_ms: Sequence[int], byte_count: int, now_ms: int) -> str | None:
        """Count the records of a batch.

        Args:
            sent_ms: When each was sent.
            byte_count: Bytes of their values.
            now_ms: When the acknowledgement came.

        Returns:
            The line of a window that ends here, None where none does.
        """
        latencies = [now_ms - each for each in sent_ms]
        numbers = (len(latencies), byte_count, sum(latencies), max(latencies))
        self._total.add(*numbers)
        self._window.add(*numbers)
        self._latencies.extend(latencies[self._skip :: self._every])
        self._skip = (self._skip - len(latencies)) % self._every
        if now_ms - self._window.begin_ms < WINDOW_MS:
            return None
        window, self._window = self._window, _Span(now_ms)
        records, megabytes = window.rates(now_ms)
        return (
            f"{window.count} records sent, {records:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{window.latency_ms_average:.1f} ms avg latency, {float(window.latency_ms_max):.1f} ms max latency."
        )

    def percentiles(self) -> list[int]:
        """Return the 50th, 95th, 99th and 99.9th percentile, in milliseconds."""
        ordered = sorted(self._latencies)
        return [ordered[int(part * len(ordered))] if ordered else 0 for part in PERCENTILES]

    def total_line(self, now_ms: int) -> str:
        """Return the line that ends the test."""
        records, megabytes = self._total.rates(now_ms)
        found = self.percentiles()
        return (
            f"{self._total.count} records sent, {records:f} records/sec ({megabytes:.2f} MB/sec), "
            f"{self._total.latency_ms_average:.2f} ms avg latency, {float(self._total.latency_ms_max):.2f} ms "
            f"max latency, {found[0]} ms 50th, {found[1]} ms 95th, {found[2]} ms 99th, {found[3]} ms 99.9th."
        )

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """Return the total as an object."""
        records, megabytes = self._total.rates(now_ms)
        names = ("p50_ms", "p95_ms", "p99_ms", "p999_ms")
        return {
            "records": self._total.count,
            "seconds": (now_ms - self.begin_ms) / 1000,
            "records_per_second": round(records, 3),
            "megabytes_per_second": round(megabytes, 4),
            "latency_ms_average": round(self._total.latency_ms_average, 3),
            "latency_ms_max": self._total.latency_ms_max,
            **dict(zip(names, self.percentiles(), strict=True)),
        }
