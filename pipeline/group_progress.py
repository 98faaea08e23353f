"""A query's progress as a consumer group's commits, so that it shows in `ottla groups` and in lag exporters.

The commits are for people and tools to look at: a query resumes from its checkpoint, never from them. A separate thread
makes them, of the newest offsets only, so that a coordinator that does not answer delays no batch.

In a job of your own:
    spark.streams.addListener(group_progress_listener(access, {"my-query": "my-group"}))
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pipeline.kafka_access import KafkaAccess
from pipeline.offsets import parse_offsets
from pipeline.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

CLOSE_TIMEOUT_S: Final = 15.0


class GroupCommitter:
    """Commits the newest offsets that it was offered to one group, in a thread of its own."""

    def __init__(self, access: KafkaAccess, group: str, report: Report | None = None) -> None:
        self._access = access
        self._group = group
        self._report = report
        self._changed = threading.Condition()
        self._next: dict[tuple[str, int], int] = {}
        self._closing = False
        self._warned = False
        self._thread = threading.Thread(target=self._run, name=f"group {group}", daemon=True)
        self._thread.start()

    def offer(self, progress: Any) -> None:
        """Take a query's progress; None, and sources that are not Kafka's, are ignored."""
        if progress is None:
            return
        offsets: dict[tuple[str, int], int] = {}
        for source in progress["sources"] if isinstance(progress, dict) else progress.sources:
            end = source["endOffset"] if isinstance(source, dict) else source.endOffset
            offsets |= parse_offsets(end)
        with self._changed:
            self._next |= offsets
            self._changed.notify()

    def close(self) -> None:
        """Commit what is left, for a bounded time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        from confluent_kafka import Consumer

        settings = {"group.id": self._group, "enable.auto.commit": False, "allow.auto.create.topics": False}
        consumer = Consumer({**self._access.client_options(), **settings})
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next or self._closing)
                offsets, self._next = self._next, {}
                if not offsets:
                    break
            self._commit(consumer, offsets)
        consumer.close()

    def _commit(self, consumer: Any, offsets: Mapping[tuple[str, int], int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            failed = [
                place.error for place in consumer.commit(offsets=places, asynchronous=False) if place.error
            ]
            why = failed[0].str() if failed else None
        except KafkaException as error:
            why = error.args[0].str()
        # The next batch commits again; one warning is enough.
        if why is not None and not self._warned and self._report is not None:
            self._warned = True
            self._report.send("warning", text=f"the progress was not committed to group {self._group}: {why}")


def group_progress_listener(
    access: KafkaAccess, groups: Mapping[str, str], report: Report | None = None
) -> "StreamingQueryListener":
    """Return a listener that commits the progress of queries to groups.

    Args:
        access: The cluster that keeps the groups.
        groups: The group of each query, by the query's name.
        report: Called once where a commit fails.
    """
    committers = {query: GroupCommitter(access, group, report) for query, group in groups.items()}
    return _listener(committers)


@contextmanager
def following_groups(
    spark: "SparkSession", access: KafkaAccess, groups: Mapping[str, str], report: Report
) -> Iterator[dict[str, GroupCommitter]]:
    """Commit the progress of queries for as long as the block runs, and return the committers by query.

    Spark notifies listeners of the last batch late: offer a query's last progress before the block ends.
    """
    committers = {query: GroupCommitter(access, group, report) for query, group in groups.items()}
    if not committers:
        yield committers
        return
    listener = _listener(committers)
    spark.streams.addListener(listener)
    try:
        yield committers
    finally:
        spark.streams.removeListener(listener)
        for committer in committers.values():
            committer.close()


def _listener(committers: Mapping[str, GroupCommitter]) -> "StreamingQueryListener":
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class GroupProgress(StreamingQueryListener):
        """Hands the progress of named queries to their committers."""

        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            committer = committers.get(event.progress.name)
            if committer is not None:
                committer.offer(event.progress)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return GroupProgress()
