"""Appends of producers and coordinators, and when they are acknowledged."""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cluster.replication.leader.delayed_produce import (
    DelayedProduce,
    OnProduced,
    ProduceResult,
    ProduceResults,
)
from cluster.replication.leader.refused_batches import RefusedBatches
from cluster.replication.partition.leader import ACKS_ALL
from cluster.replication.partition.partition import Partition
from cluster.replication.roles.hosted_partitions import HostedPartitions
from storage.errors import InvalidRecordError, LogError
from storage.log import AppendOrigin
from storage.verification import NO_TOKEN, VerificationToken
from wire.errors import ApiError, Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.types import NO_OFFSET, Offset, TopicPartition, WallMs

if TYPE_CHECKING:
    from timing.clock import Clock
    from timing.timing_wheel import Timer

logger = logging.getLogger(__name__)

_QUIET: Final = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.MESSAGE_TOO_LARGE,
        Error.RECORD_LIST_TOO_LARGE,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that are part of ordinary operation: not counted as failures of this broker."""
_NO_BATCH: Final = memoryview(b"")

Tokens = Mapping[TopicPartition, VerificationToken]
"""The tokens of a request's verified partitions (KIP-890)."""
NO_TOKENS: Final[Tokens] = MappingProxyType({})


class Appends:
    """All appends to partitions that this broker leads.

    Args:
        hosted: The partitions.
        clock: Stamps records, and measures followers' lag.
        timer: Ends the wait for replicas.
        verifies: Whether a batch that opens a transaction needs a token.

    Attributes:
        refused: The batches that were refused for a transient reason.
        verifies: As given.
    """

    __slots__ = ("_clock", "_hosted", "_timer", "refused", "verifies")

    def __init__(
        self,
        hosted: HostedPartitions,
        clock: "Clock",
        timer: "Timer",
        verifies: Callable[[], bool] = lambda: True,
    ) -> None:
        self._hosted = hosted
        self._clock = clock
        self._timer = timer
        self.verifies = verifies
        self.refused = RefusedBatches()

    def append(
        self,
        batches: Iterable[tuple[TopicPartition, memoryview | bytearray | None]],
        required_acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
        tokens: Tokens = NO_TOKENS,
    ) -> None:
        """Append to each partition by itself, then answer at once or when the replicas have it.

        Everything is written before any waiter is called, so that a follower's fetch that is woken gets all of it.

        Args:
            batches: Records by partition, each partition once. They are patched in place and not kept.
            required_acks: 0 or 1 to be answered at once, -1 to wait for the in-sync replicas.
            timeout_ms: How long to wait for them.
            on_done: Called exactly once with a result per partition, from within this call or later from the loop.
            origin: Whether a client or a coordinator writes.
            internal_topics_allowed: Whether `INTERNAL_TOPICS` may be written to.
            tokens: The tokens of the partitions whose transaction was verified.
        """
        results: ProduceResults = {}
        if required_acks not in (-1, 0, 1):
            for topic_partition, _ in batches:
                results[topic_partition] = ProduceResult(Error.INVALID_REQUIRED_ACKS)
            on_done(results)
            return
        appended: list[tuple[Partition, Offset]] = []
        now = self._clock.wall_ms()
        online = self._hosted.online
        verifies = self.verifies()
        for topic_partition, records in batches:
            if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
                results[topic_partition] = ProduceResult(
                    Error.INVALID_TOPIC_EXCEPTION,
                    error_message=f"Cannot append to internal topic {topic_partition.topic}",
                )
                continue
            partition = online.get(topic_partition)
            if partition is None:
                error = self._hosted.absence(topic_partition)
                self.refused.note(topic_partition, records, error)
                results[topic_partition] = ProduceResult(error)
                continue
            token = tokens.get(topic_partition, NO_TOKEN) if verifies else None
            result, end = self._append_to(partition, records, required_acks, now, origin, token)
            results[topic_partition] = result
            if result.error is Error.NONE:
                appended.append((partition, end))
        moment = self._clock.monotonic()
        for partition, _ in appended:
            if partition.leader is not None:
                partition.leader.appended(moment)
        if required_acks == ACKS_ALL and appended:
            self._await_replicas(appended, results, timeout_ms, on_done)
        elif required_acks and not all(partition.is_flushed(end) for partition, end in appended):
            self._await_flush(appended, results, timeout_ms, on_done)
        else:
            on_done(results)

    def _append_to(
        self,
        partition: Partition,
        records: memoryview | bytearray | None,
        required_acks: int,
        now: WallMs,
        origin: AppendOrigin,
        token: VerificationToken | None,
    ) -> tuple[ProduceResult, Offset]:
        """Append to one partition; return its result, and the offset after the records, or -1 if they were refused."""
        refused, topic_partition, traffic = self.refused, partition.topic_partition, partition.traffic
        traffic.produce_requests.value += 1
        log = partition.leader_log
        if refused and log is not None and origin is AppendOrigin.CLIENT:
            held_back = refused.error_for(topic_partition, records, log)
            if held_back is not None:
                return ProduceResult(held_back), NO_OFFSET
        try:
            result = partition.leader_or_error().append(
                _NO_BATCH if records is None else records, required_acks, now, origin, token
            )
        except (ApiError, LogError) as failure:
            failed = self._failed(partition, failure)
            refused.note(topic_partition, records, failed.error)
            return failed, NO_OFFSET
        if not result.duplicate:
            traffic.bytes_in.value += result.size
            traffic.messages_in.value += result.last_offset - result.first_offset + 1
        written = ProduceResult(
            Error.NONE, result.first_offset, result.log_append_time, result.log_start_offset
        )
        return written, Offset(result.last_offset + 1)

    def _await_flush(
        self,
        appended: list[tuple[Partition, Offset]],
        results: ProduceResults,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        produce = DelayedProduce(results, on_done, self._timer)
        for partition, required in appended:
            if not partition.is_flushed(required):
                produce.wait_for(partition.topic_partition)
                partition.waiters.await_flush(required, produce)
        self._timer.add(produce, timeout_ms)

    def _await_replicas(
        self,
        appended: list[tuple[Partition, Offset]],
        results: ProduceResults,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        waiting: list[tuple[Partition, Offset]] = []
        for partition, required in appended:
            error = partition.acknowledged(required)
            if error is None:
                waiting.append((partition, required))
            else:
                results[partition.topic_partition].error = error
        if not waiting:
            on_done(results)
            return
        produce = DelayedProduce(results, on_done, self._timer)
        for partition, required in waiting:
            produce.wait_for(partition.topic_partition)
            partition.waiters.await_high_watermark(required, produce)
        self._timer.add(produce, timeout_ms)

    def _failed(self, partition: Partition, failure: ApiError | LogError) -> ProduceResult:
        error = failure.error if isinstance(failure, ApiError) else failure.kafka_error
        log = partition.leader_log
        start = NO_OFFSET
        if error not in _QUIET:
            partition.traffic.failed_produces.value += 1
            logger.info("append to %s failed: %s: %s", partition.topic_partition, error.name, failure)
            start = NO_OFFSET if log is None else log.log_start_offset
        if isinstance(failure, InvalidRecordError):
            return ProduceResult(
                error,
                log_start_offset=start,
                record_errors=failure.record_errors,
                error_message=str(failure) or None,
            )
        return ProduceResult(error, log_start_offset=start, error_message=None)
