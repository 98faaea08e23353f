"""Writing to ``__consumer_offsets``: a coordinator's records, acknowledged by every in-sync replica."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from cluster.coordinator.group_records import KeyedRecord
from storage.producer_state import AppendOrigin
from wire.errors import Error
from wire.records.builder import build_batch
from wire.records.compression import Compression
from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.delayed_produce import ProduceResult
    from cluster.replication.replicas import Replicas

CONSUMER_OFFSETS: Final = "__consumer_offsets"

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

    def append(self, partition: int, records: Sequence[KeyedRecord], on_done: OnWritten) -> None:
        """Write records as one batch: all of them or none.

        ``on_done`` may be called before this returns; it is called from the broker's loop.
        """
        at = TopicPartition(CONSUMER_OFFSETS, partition)
        batch = bytearray(build_batch(records, compression=self._compression))

        def done(results: "dict[TopicPartition, ProduceResult]") -> None:
            result = results[at]
            on_done(result.error, result.base_offset)

        self._replicas.append(
            [(at, memoryview(batch))],
            self._acks,
            self._timeout_ms,
            done,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
        )

    def append_and_forget(self, partition: int, records: Sequence[KeyedRecord]) -> None:
        """Write records whose loss costs nothing: the next pass, or the next coordinator, writes them again."""
        self.append(partition, records, _ignore)


def _ignore(error: Error, offset: Offset) -> None:
    """Nobody waits for the outcome."""
    del error, offset


def group_error(error: Error) -> Error:
    """Give what the members of a group are told when its record could not be written."""
    return _GROUP_ERRORS.get(error, error)


def offset_error(error: Error) -> Error:
    """Give what a client is told when its commit could not be written."""
    return _OFFSET_ERRORS.get(error, error)


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
_OFFSET_ERRORS: Final = {
    **_MOVED,
    Error.MESSAGE_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.RECORD_LIST_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.INVALID_FETCH_SIZE: Error.INVALID_COMMIT_OFFSET_SIZE,
}
