"""Following the queries of a job: reports their progress, passes on requests to stop, ends all at the first failure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.offsets import parse_offsets
from pipeline.report import Report, Stop

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_AGAIN_S: Final = 0.25


@dataclass(slots=True)
class StreamTotals:
    """A query's totals since its start: rows read, batches, and the counts that it observed."""

    rows: int = 0
    batches: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class Follower:
    """Follows queries until they end, by themselves or by request.

    Args:
        report: Where the progress goes.
        stop: Asks the queries to stop.
        watch: Called every quarter of a second while they run; what it raises stops them.
        why: Called when a query has failed; what it raises is clearer than the query's error, and replaces it.
    """

    def __init__(
        self,
        report: Report,
        stop: Stop,
        watch: Callable[[], None] = lambda: None,
        why: Callable[[], None] = lambda: None,
    ) -> None:
        self._report = report
        self._stop = stop
        self._watch = watch
        self._why = why
        self._told: dict[str, int] = {}

    def follow(
        self, queries: Mapping[str, "StreamingQuery"], until: Callable[[], bool] = lambda: False
    ) -> dict[str, StreamTotals]:
        """Wait for the end of all queries, and return the totals of each.

        Args:
            queries: The queries, by the names that people see.
            until: Checked like the request to stop.

        Raises:
            StreamingQueryException: a query failed; the others were stopped.
        """
        totals = {name: StreamTotals() for name in queries}
        try:
            while any(query.isActive for query in queries.values()):
                self._tell(queries, totals)
                self._watch()
                if self._stop.requested or until():
                    break
                self._stop.wait(LOOK_AGAIN_S)
                if any(not query.isActive and query.exception() for query in queries.values()):
                    break
        finally:
            for query in queries.values():
                query.stop()
        self._tell(queries, totals)
        for query in queries.values():
            # A stopped query may still report that its batch was interrupted: that is no failure.
            error = query.exception()
            if error is not None and not self._stop.requested:
                self._why()
                raise error
        return totals

    def _tell(self, queries: Mapping[str, "StreamingQuery"], totals: dict[str, StreamTotals]) -> None:
        for name, query in queries.items():
            for progress in query.recentProgress:
                key = f"{name} {query.runId}"
                if progress["batchId"] <= self._told.get(key, -1) or not _did_something(progress):
                    continue
                self._told[key] = progress["batchId"]
                counts = observed_counts(progress)
                total = totals[name]
                total.rows += progress["numInputRows"]
                total.batches += 1
                for what, count in counts.items():
                    total.counts[what] = total.counts.get(what, 0) + count
                self._report.send(
                    "progress",
                    query=name,
                    batch=progress["batchId"],
                    rows=progress["numInputRows"],
                    rows_per_s=progress["processedRowsPerSecond"] or 0.0,
                    lag=lag_of(progress),
                    counts=counts,
                )


def observed_counts(progress: Any) -> dict[str, int]:
    """Return the query's own counts (`observe`), and how many groups its state dropped as late.

    Spark drops late records after it has aggregated those of a task, so it counts each window and key once per task.
    """
    counts: dict[str, int] = {}
    for row in (progress["observedMetrics"] or {}).values():
        values = row.asDict() if hasattr(row, "asDict") else dict(row)
        counts |= {name: int(value or 0) for name, value in values.items()}
    late = sum(int(operator["numRowsDroppedByWatermark"]) for operator in progress["stateOperators"] or ())
    return {**counts, "late_groups": late} if progress["stateOperators"] else counts


def lag_of(progress: Any) -> int | None:
    """Return how many offsets a query's sources are behind the ends of their topics; None where they do not report
    it.
    """
    lag = None
    for source in progress["sources"]:
        end, latest = parse_offsets(source["endOffset"]), parse_offsets(source["latestOffset"])
        if latest:
            behind = (last - end.get(place, 0) for place, last in latest.items())
            lag = (lag or 0) + sum(max(0, offsets) for offsets in behind)
    return lag


def _did_something(progress: Any) -> bool:
    return bool(progress["numInputRows"]) or "addBatch" in (progress["durationMs"] or {})
