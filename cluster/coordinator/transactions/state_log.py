"""Writing to ``__transaction_state``: a coordinator's records, acknowledged by every in-sync replica."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.coordinator.transactions.state_records import state_record
from cluster.replication.partition.leader import ACKS_ALL
from storage.log import AppendOrigin
from wire.errors import Error
from wire.internal_topics import TRANSACTION_STATE
from wire.records.builder import build_batch
from wire.types import NO_OFFSET, Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.coordinator.transactions.hosted_transactions import HostedPartition
    from cluster.replication.leader.delayed_produce import ProduceResult
    from cluster.replication.replicas import Replicas
    from timing.clock import Clock

OnWritten = Callable[[Error], None]


class StateLog:
    """Appends records of transactional ids to the partitions that this broker leads.

    Args:
        replicas: The broker's partitions.
        clock: Wall time, for the timestamps of records.
    """

    def __init__(self, replicas: "Replicas", clock: "Clock") -> None:
        self._replicas = replicas
        self._clock = clock

    def append(
        self,
        partition: "HostedPartition",
        values: Mapping[str, bytes | None],
        timeout_ms: int,
        on_done: OnWritten,
    ) -> None:
        """Write the values of some ids as one batch; None writes a tombstone.

        ``on_done`` is called with the error of the append, within this call or later from the loop. With NONE the
        partition's `stored` has the values.
        """
        at = TopicPartition(TRANSACTION_STATE, partition.number)
        now = self._clock.wall_ms()
        records = [state_record(transactional_id, value, now) for transactional_id, value in values.items()]
        stored = partition.stored

        def done(results: "dict[TopicPartition, ProduceResult]") -> None:
            result = results[at]
            if result.error is Error.NONE:
                first = result.base_offset
                stored.wrote(first, Offset(first + len(records)), partition.epoch, dict(values))
            elif result.base_offset != NO_OFFSET:
                # The batch is in the log, and may stay there although it was not acknowledged.
                stored.is_exact = False
            on_done(result.error)

        self._replicas.append(
            [(at, build_batch(records))],
            ACKS_ALL,
            timeout_ms,
            done,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
        )


def coordinator_error(error: Error) -> Error:
    """Return the error that a client gets when a record could not be written."""
    return _ERRORS.get(error, error)


_ERRORS: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}
