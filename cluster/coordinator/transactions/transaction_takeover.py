"""Starts to serve the transactional ids of a loaded partition of ``__transaction_state``.

Nothing is served before the high watermark has reached the end of what was read: a record that only this leader has can
be lost with it, and a marker sent, or a partition verified, because of such a record would give the transaction a
second outcome.
"""

from typing import TYPE_CHECKING

import trio

from cluster.coordinator.partition_loader import SLICE
from cluster.coordinator.transactions.hosted_transactions import HostedPartition
from cluster.coordinator.transactions.state_records import peek_state
from cluster.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from cluster.statemachines.transaction import TransactionState
from wire.errors import Error
from wire.internal_topics import TRANSACTION_STATE
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.replication.replicas import Replicas


class TransactionTakeover:
    """What the transaction coordinator does with a partition that it takes over or loses.

    Args:
        replicas: The broker's partitions.
        coordinator: Where ids are hosted.
    """

    def __init__(self, replicas: "Replicas", coordinator: TransactionCoordinator) -> None:
        self._replicas = replicas
        self._coordinator = coordinator
        self._led = coordinator.hosted.led

    async def serve(self, partition: HostedPartition) -> bool:
        """Load the open transactions, and serve; return False if the partition was unloaded meanwhile."""
        await self._wait_replicated(partition)
        for count, (transactional_id, value) in enumerate(tuple(partition.stored.values.items()), 1):
            state = peek_state(value)
            if state is TransactionState.ONGOING or state.is_prepared:
                partition.find(transactional_id)
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()
        if not self._led.is_current(partition):
            return False
        partition.is_loading = False
        self._coordinator.loaded(partition)
        return True

    def unloaded(self, partition: HostedPartition) -> None:
        """Stop sending the markers of a partition that we no longer lead."""
        self._coordinator.markers.unload(partition)
        partition.transactions = {}

    async def _wait_replicated(self, partition: HostedPartition) -> None:
        """Wait until every in-sync replica has the records that were read."""
        at = TopicPartition(TRANSACTION_STATE, partition.number)
        while self._led.is_current(partition):
            replica = self._replicas.partition_or_error(at)
            log = self._replicas.leader_log(at)
            if log.high_watermark >= partition.stored.next_offset:
                return
            wait = _Replication()
            replica.waiters.await_high_watermark(partition.stored.next_offset, wait)
            await wait.over.wait()


class _Replication:
    """Waits for the in-sync replicas in a partition's queue of acknowledgements, as a Produce does."""

    def __init__(self) -> None:
        self.over = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Whether the wait is over."""
        return self.over.is_set()

    def settle(self, topic_partition: TopicPartition, error: Error) -> None:
        """Check again: the high watermark has advanced, or the leadership has moved."""
        del topic_partition, error
        self.over.set()
