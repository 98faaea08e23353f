"""What kafka-consumer-perf-test counts and prints. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_MEGABYTE: Final = 1024 * 1024
_RATES: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
HEADER: Final = (
    f"start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {_RATES}"
)
DETAILED_HEADER: Final = (
    f"time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {_RATES}"
)


@dataclass(slots=True)
class ConsumptionStatistics:
    """Counts records.

    Attributes:
        begin_ms: When the test began.
        record_count: Records so far.
        byte_count: Bytes of their keys and values.
        rebalance_ms: How long it took to get partitions.
    """

    begin_ms: int
    record_count: int = 0
    byte_count: int = 0
    rebalance_ms: int = 0
    _window_ms: int = 0
    _window_records: int = 0
    _window_bytes: int = 0
    _window_rebalance_ms: int = 0

    def __post_init__(self) -> None:
        self._window_ms = self.begin_ms

    def joined(self, now_ms: int) -> None:
        """Note that partitions were assigned."""
        self.rebalance_ms = self._window_rebalance_ms = now_ms - self.begin_ms

    def consumed(self, record_count: int, byte_count: int) -> None:
        """Count records."""
        self.record_count += record_count
        self.byte_count += byte_count

    def window_row(self, now_ms: int, interval_ms: int, show_time: Callable[[int], str]) -> str | None:
        """Return the row of an interval that ends here, None where none does."""
        elapsed_ms = now_ms - self._window_ms
        if elapsed_ms < interval_ms:
            return None
        records = self.record_count - self._window_records
        megabytes = (self.byte_count - self._window_bytes) / _MEGABYTE
        fetch_ms = elapsed_ms - self._window_rebalance_ms
        by_fetch = 1000 / fetch_ms if fetch_ms > 0 else 0.0
        row = (
            f"{show_time(now_ms)}, 0, {self.byte_count / _MEGABYTE:.4f}, {1000 * megabytes / elapsed_ms:.4f}, "
            f"{self.record_count}, {1000 * records / elapsed_ms:.4f}, {self._window_rebalance_ms}, {fetch_ms}, "
            f"{megabytes * by_fetch:.4f}, {records * by_fetch:.4f}"
        )
        self._window_ms, self._window_rebalance_ms = now_ms, 0
        self._window_records, self._window_bytes = self.record_count, self.byte_count
        return row

    def _numbers(self, now_ms: int) -> tuple[float, float, float, int, float, float]:
        elapsed_s = max(now_ms - self.begin_ms, 1) / 1000
        megabytes = self.byte_count / _MEGABYTE
        fetch_ms = now_ms - self.begin_ms - self.rebalance_ms
        fetch_s = max(fetch_ms, 1) / 1000
        rates = megabytes / elapsed_s, self.record_count / elapsed_s
        return megabytes, *rates, fetch_ms, megabytes / fetch_s, self.record_count / fetch_s

    def total_row(self, now_ms: int, show_time: Callable[[int], str]) -> str:
        """Return the row that ends the test."""
        megabytes, by_second, records, fetch_ms, by_fetch, records_by_fetch = self._numbers(now_ms)
        return (
            f"{show_time(self.begin_ms)}, {show_time(now_ms)}, {megabytes:.4f}, {by_second:.4f}, {self.record_count}, "
            f"{records:.4f}, {self.rebalance_ms}, {fetch_ms}, {by_fetch:.4f}, {records_by_fetch:.4f}"
        )

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """Return the total as an object."""
        megabytes, by_second, records, fetch_ms, by_fetch, records_by_fetch = self._numbers(now_ms)
        return {
            "records": self.record_count,
            "megabytes": round(megabytes, 4),
            "seconds": (now_ms - self.begin_ms) / 1000,
            "megabytes_per_second": round(by_second, 4),
            "records_per_second": round(records, 3),
            "rebalance_ms": self.rebalance_ms,
            "fetch_ms": fetch_ms,
            "fetch_megabytes_per_second": round(by_fetch, 4),
            "fetch_records_per_second": round(records_by_fetch, 3),
        }
