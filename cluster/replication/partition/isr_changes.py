"""Writes the ISR changes that partitions propose, and announces them to the controller.

Proposals are written in overlapping requests, each conditional on its znode's version. A version that has moved on, or
a node that is gone, leaves the partition pending until the controller's next LeaderAndIsr; after an expired session, it
waits for the next one. Written changes are announced under ``/isr_change_notification``, in one node for all that a
short pause gathers: reassignments and controlled shutdowns wait for it, so the pause is much shorter than Kafka's.
"""

import logging
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import trio

from cluster.replication.partition.partition import Partition
from cluster.statemachines.isr import CommittedIsr, PendingExpand, PendingIsr
from cluster.zookeeper.client import BadVersionError, NoNodeError, ZooKeeperError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.statemachines.leadership import PartitionLeadership
    from timing.clock import Clock
    from wire.types import TopicPartition, ZkVersion

logger = logging.getLogger(__name__)

WRITES_AT_ONCE: Final = 256
GATHER_S: Final = 0.05
RETRY_S: Final = 0.5


class IsrStore(Protocol):
    """The required part of ZooKeeper; `BrokerStore` implements it."""

    async def write_isr(
        self, partition: "TopicPartition", leadership: "PartitionLeadership", expected_version: "ZkVersion"
    ) -> "ZkVersion":
        """Write a partition's ISR, and return the znode's new version."""
        ...

    async def propagate_isr_changes(self, partitions: "Iterable[TopicPartition]") -> None:
        """Announce to the controller the partitions whose ISRs were written."""
        ...


class IsrChanges:
    """The one place that writes ISRs.

    Args:
        store: ZooKeeper.
        clock: The time at which a change was committed.
        metrics: Counts expansions, shrinkings, and changes that the znode's version refused.

    Attributes:
        on_committed: Called with each partition whose ISR has just changed.
    """

    def __init__(self, store: IsrStore, clock: "Clock", metrics: "BrokerMetrics") -> None:
        self._store = store
        self._clock = clock
        self.on_committed: list[Callable[[Partition], None]] = []
        self._proposed: dict[Partition, None] = {}
        self._written: dict[TopicPartition, None] = {}
        self._proposal_came = trio.Event()
        self._write_done = trio.Event()
        self._expands = metrics.isr_expands.only
        self._shrinks = metrics.isr_shrinks.only
        self._failures = metrics.failed_isr_updates.only

    def submit(self, partition: Partition) -> None:
        """Queue a partition that has just proposed a change."""
        self._proposed[partition] = None
        self._proposal_came.set()

    async def run(self) -> NoReturn:
        """Write and announce until cancelled; proposed changes then stay pending."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._announce, name="ISR change announcements")
            slots = trio.Semaphore(WRITES_AT_ONCE)
            while True:
                await self._proposal_came.wait()
                self._proposal_came = trio.Event()
                proposed, self._proposed = self._proposed, {}
                for partition in proposed:
                    pending = partition.isr
                    if not isinstance(pending, CommittedIsr):
                        await slots.acquire()
                        nursery.start_soon(self._write, partition, pending, slots)

    async def _write(self, partition: Partition, pending: PendingIsr, slots: trio.Semaphore) -> None:
        try:
            await self._write_until_known(partition, pending)
        finally:
            slots.release()

    async def _write_until_known(self, partition: Partition, pending: PendingIsr) -> None:
        topic_partition = partition.topic_partition
        while partition.isr is pending:
            try:
                version = await self._store.write_isr(
                    topic_partition, pending.proposed, pending.proposed.zk_version
                )
            except (BadVersionError, NoNodeError) as error:
                logger.info("ISR of %s is not changed: %s", topic_partition, error)
                self._failures.value += 1
                partition.in_sync_replicas.superseded(pending)
                return
            except ZooKeeperError as error:
                logger.warning("ISR of %s waits for ZooKeeper: %s", topic_partition, error)
                await trio.sleep(RETRY_S)
                continue
            logger.info("ISR of %s is now %s", topic_partition, pending.proposed.isr)
            if isinstance(pending, PendingExpand):
                self._expands.value += 1
            else:
                self._shrinks.value += 1
            self._written[topic_partition] = None
            self._write_done.set()
            partition.isr_committed(pending, version, self._clock.monotonic())
            for callback in self.on_committed:
                callback(partition)
            return

    async def _announce(self) -> NoReturn:
        while True:
            await self._write_done.wait()
            await trio.sleep(GATHER_S)
            self._write_done = trio.Event()
            written, self._written = self._written, {}
            while True:
                try:
                    await self._store.propagate_isr_changes(list(written))
                except ZooKeeperError as error:
                    logger.warning("ISR changes wait to be announced: %s", error)
                    await trio.sleep(RETRY_S)
                    continue
                break
