"""Writing to ``__consumer_offsets``: a coordinator's records, acknowledged by every in-sync replica."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.coordinator.group_records import KeyedRecord
from cluster.replication.leader.appends import NO_TOKENS
from cluster.replication.partition.leader import ACKS_ALL
from storage.producer_state import AppendOrigin
from wire.errors import Error
from wire.internal_topics import CONSUMER_OFFSETS
from wire.records.builder import build_batch
from wire.records.compression import Compression
from wire.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

if TYPE_CHECKING:
    from cluster.coordinator.hosted_groups import HostedPartition
    from cluster.replication.leader.delayed_produce import ProduceResult
    from cluster.replication.replicas import Replicas
    from storage.verification import VerificationToken


_FORGOTTEN_BATCH_MAX: Final = 256 * 1024
"""Bytes in a batch of tombstones: well below any topic's limit."""
_RECORD_OVERHEAD_MAX: Final = 32

OnWritten = Callable[[Error, Offset], None]
"""Called once with the outcome, and with the offset of the first record (-1 with an error)."""


class OffsetsLog:
    """Appends batches of records to the partitions of ``__consumer_offsets`` that this broker leads.

    Args:
        replicas: The broker's partitions.
        acks: ``offsets.commit.required.acks``.
        timeout_ms: ``offsets.commit.timeout.ms``: how long the in-sync replicas may take.
        compression: ``offsets.topic.compression.codec``.
    """

    def __init__(
        self,
        replicas: "Replicas",
        *,
        acks: int = -1,
        timeout_ms: int = 5_000,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._replicas = replicas
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._compression = compression

    def append(
        self,
        partition: "HostedPartition",
        records: Sequence[KeyedRecord],
        on_done: OnWritten,
        writer: "Writer | None" = None,
        token: "VerificationToken | None" = None,
    ) -> None:
        """Write records as one batch: all of them or none.

        ``on_done`` may be called before this returns; it is called from the broker's loop.

        Args:
            partition: The partition, which notes how far its log has been written.
            records: What to write.
            on_done: Takes the outcome.
            writer: The transaction that the records belong to; None where to none.
            token: Of that transaction's verification.
        """
        batch = (
            build_batch(records, compression=self._compression)
            if writer is None
            else build_batch(
                records,
                compression=self._compression,
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        )
        self._write(partition, batch, len(records), self._acks, on_done, token)

    def append_marker(self, partition: "HostedPartition", marker: bytearray, on_done: OnWritten) -> None:
        """Write the marker that ends a producer's transaction; it takes effect when all in-sync replicas have it.

        It is a batch of its own, so that its outcome comes in the order of the partition's writes. The arguments are
        those of `append`.
        """
        self._write(partition, marker, 1, ACKS_ALL, on_done, None)

    def _write(
        self,
        partition: "HostedPartition",
        batch: bytearray,
        count: int,
        acks: int,
        on_done: OnWritten,
        token: "VerificationToken | None",
    ) -> None:
        at = TopicPartition(CONSUMER_OFFSETS, partition.number)
        # The epoch that we know is never higher than the records': at worst, a valid state counts as outdated.
        epoch = partition.epoch

        def done(results: "dict[TopicPartition, ProduceResult]") -> None:
            result = results[at]
            if result.error is Error.NONE:
                partition.stored.wrote(Offset(result.base_offset + count), epoch, count)
            elif result.error in _UNDECIDED:
                partition.stored.has_gap = True
            on_done(result.error, result.base_offset)

        self._replicas.append(
            [(at, batch)],
            acks,
            self._timeout_ms,
            done,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
            tokens=NO_TOKENS if token is None else {at: token},
        )

    def append_and_forget(self, number: int, records: Sequence[KeyedRecord]) -> None:
        """Write the tombstones of groups and offsets, in batches that fit.

        Nobody waits: a lost tombstone is written again by the next pass, or by the next coordinator.
        """
        at = TopicPartition(CONSUMER_OFFSETS, number)
        for some in _in_batches(records):
            self._replicas.append(
                [(at, build_batch(some, compression=self._compression))],
                1,
                self._timeout_ms,
                _ignore,
                origin=AppendOrigin.COORDINATOR,
                internal_topics_allowed=True,
            )


class Writer(NamedTuple):
    """The producer in whose transaction something is written."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


def _in_batches(records: Sequence[KeyedRecord]) -> Iterator[Sequence[KeyedRecord]]:
    start = size = 0
    for end, record in enumerate(records):
        size += len(record.key) + _RECORD_OVERHEAD_MAX
        if size > _FORGOTTEN_BATCH_MAX and end > start:
            yield records[start:end]
            start, size = end, len(record.key) + _RECORD_OVERHEAD_MAX
    if start < len(records):
        yield records[start:]


def _ignore(results: "dict[TopicPartition, ProduceResult]") -> None:
    """Ignore the outcome: nobody waits for it."""
    del results


def group_error(error: Error) -> Error:
    """Return the error for the members of a group whose record could not be written."""
    return _GROUP_ERRORS.get(error, error)


def offset_error(error: Error) -> Error:
    """Return the error for a client whose commit could not be written."""
    return _OFFSET_ERRORS.get(error, error)


def verification_error(error: Error) -> Error:
    """Return the error for a client when its transaction's coordinator did not confirm a commit (KIP-890)."""
    return _VERIFICATION_ERRORS.get(error, offset_error(error))


_UNDECIDED: Final = frozenset({Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Errors after which a batch may still be in the log, and stay there."""

_MOVED: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
}
_GROUP_ERRORS: Final = {
    **_MOVED,
    Error.REQUEST_TIMED_OUT: Error.REBALANCE_IN_PROGRESS,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}
_VERIFICATION_ERRORS: Final = {
    Error.NETWORK_EXCEPTION: Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.PRODUCER_FENCED: Error.INVALID_PRODUCER_EPOCH,
}
_OFFSET_ERRORS: Final = {
    **_MOVED,
    Error.MESSAGE_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.RECORD_LIST_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.INVALID_FETCH_SIZE: Error.INVALID_COMMIT_OFFSET_SIZE,
}
