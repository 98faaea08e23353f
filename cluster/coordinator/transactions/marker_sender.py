"""Sending markers: every partition of a decided transaction gets its own, however long that takes.

A marker goes to the present leader of its partition, in requests that carry those of many transactions. A marker that
fails is sent again after a pause of its own, to the leader of that time, so that a slow partition holds up no other.
Only three things end the retries without an acknowledgement: the partition is gone from the cluster, it cannot hold
transactions at all, or it refuses the marker as outdated twice, the second time with our present epoch: it has gone on
without us.

A marker belongs to the `HostedPartition` object of its transaction. When that is unloaded, its markers are dropped: the
broker that loads the partition next sends them all again.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.coordinator.transactions.hosted_transactions import HostedPartition
from cluster.coordinator.transactions.marker_lanes import MarkerLanes
from cluster.coordinator.transactions.marker_writes import Marker, MarkerWrites
from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.coordinator.transactions.waiting_marker import Completion, WaitingMarker
from cluster.statemachines.transaction import Transaction
from cluster.zookeeper.client import ZooKeeperError
from timing.timing_wheel import CallTimer, Timer
from wire.errors import Error
from wire.types import BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    import trio

    from cluster.replication.metadata_cache import MetadataCache

logger = logging.getLogger(__name__)

PAUSE_MIN_MS: Final = 50
PAUSE_MAX_MS: Final = 1_000
_DROPS: Final = frozenset({Error.UNSUPPORTED_FOR_MESSAGE_FORMAT, Error.UNSUPPORTED_VERSION})
"""Refusals of a partition that cannot hold transactions at all."""
_FENCES: Final = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.TRANSACTION_COORDINATOR_FENCED})
_ORDINARY: Final = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.KAFKA_STORAGE_ERROR,
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Temporary failures."""


class MarkerSender:
    """Sends the markers of the transactions that this broker coordinates.

    Args:
        broker_id: This broker, whose own partitions are written to without the network.
        metadata: Says which broker leads a partition, and which are live.
        listener: The inter-broker listener.
        writes: Writes markers to partitions on this broker.
        channel_to: Makes a channel to another broker.
        exists: Asks ZooKeeper whether a partition exists.
        leader_epoch: Returns our present leader epoch of a partition of ``__transaction_state``.
        on_marked: Called when every partition of a transaction has its marker.
        timer: Ends pauses.
        nursery: Where requests run.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: "MetadataCache",
        listener: str,
        writes: MarkerWrites,
        channel_to: Callable[[BrokerId], PeerChannel],
        exists: Callable[[TopicPartition], Awaitable[bool]],
        leader_epoch: Callable[[int], LeaderEpoch],
        on_marked: Callable[[HostedPartition, Transaction], None],
        timer: Timer,
        nursery: "trio.Nursery",
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._listener = listener
        self._writes = writes
        self._channel_to = channel_to
        self._exists = exists
        self._leader_epoch = leader_epoch
        self._on_marked = on_marked
        self._timer = timer
        self._nursery = nursery
        self._lanes: dict[BrokerId, MarkerLanes] = {}
        self._completions: dict[Completion, None] = {}
        self._pauses: dict[WaitingMarker, CallTimer] = {}
        self.abandoned = 0
        """Markers that were refused as outdated, so that their partitions may hold an open transaction."""

    def send(self, partition: HostedPartition, transaction: Transaction) -> None:
        """Send the markers of a transaction that was just decided, or loaded in that state."""
        completion = Completion(partition, transaction)
        self._completions[completion] = None
        if not transaction.unmarked:
            self._complete(completion)
            return
        self._route([WaitingMarker(completion, at) for at in sorted(transaction.unmarked)])

    def unload(self, partition: HostedPartition) -> None:
        """Drop the markers of a partition that we no longer lead."""
        for completion in tuple(self._completions):
            if completion.partition is partition:
                completion.is_over = True
                del self._completions[completion]
        for marker in [each for each in self._pauses if each.completion.is_over]:
            self._timer.cancel(self._pauses.pop(marker))

    def waiting_by_broker(self) -> Mapping[int, int]:
        """Count the markers that wait for each broker; -1 stands for those that pause before their next attempt."""
        counts = {int(broker_id): lanes.waiting for broker_id, lanes in self._lanes.items()}
        counts[-1] = len(self._pauses)
        return counts

    # Routing

    def _route(self, markers: Iterable[WaitingMarker]) -> None:
        here: dict[Completion, list[WaitingMarker]] = {}
        for marker in markers:
            if marker.completion.is_over:
                continue
            state = self._metadata.partition(*marker.at)
            if state is None:
                self._nursery.start_soon(self._look_for, marker, name=f"search for {marker.at}")
            elif state.leader == self._broker_id:
                here.setdefault(marker.completion, []).append(marker)
            elif self._metadata.node(state.leader, self._listener) is None:
                self._pause(marker)
            else:
                self._lanes_to(state.leader).put(marker)
        for completion, some in here.items():
            self._write_here(completion, some)

    def _lanes_to(self, broker_id: BrokerId) -> MarkerLanes:
        lanes = self._lanes.get(broker_id)
        if lanes is None:
            lanes = self._lanes[broker_id] = MarkerLanes(
                broker_id, lambda: self._channel_to(broker_id), self._settle, self._timer, self._nursery
            )
        return lanes

    def _write_here(self, completion: Completion, markers: list[WaitingMarker]) -> None:
        by_partition = {marker.at: marker for marker in markers}

        def written(outcomes: "Iterable[Mapping[TopicPartition, Error]]") -> None:
            for outcome in outcomes:
                for at, error in outcome.items():
                    self._settle(by_partition[at], error)

        record = completion.transaction.record
        self._writes.write(
            [
                Marker(
                    record.producer_id,
                    record.producer_epoch,
                    completion.is_commit,
                    completion.partition.epoch,
                    tuple(by_partition),
                )
            ],
            written,
        )

    async def _look_for(self, marker: WaitingMarker) -> None:
        """Ask ZooKeeper whether a partition that is not in the metadata was deleted, or is not known here yet."""
        try:
            exists = await self._exists(marker.at)
        except ZooKeeperError as error:
            logger.warning("whether %s exists is not known: %s", marker.at, error)
            exists = True
        if exists:
            self._pause(marker)
        else:
            logger.info("%s was deleted: %s completes without it", marker.at, marker.transactional_id)
            self._acknowledge(marker)

    # Outcomes

    def _settle(self, marker: WaitingMarker, error: Error) -> None:
        if marker.completion.is_over:
            return
        if error is Error.NONE:
            self._acknowledge(marker)
        elif error in _DROPS:
            logger.error(
                "%s cannot hold the marker of %s: %s", marker.at, marker.transactional_id, error.name
            )
            self._acknowledge(marker)
        elif error in _FENCES:
            self._fenced(marker, error)
        else:
            if error not in _ORDINARY:
                logger.error(
                    "the marker of %s for %s failed: %s", marker.transactional_id, marker.at, error.name
                )
            self._pause(marker)

    def _fenced(self, marker: WaitingMarker, error: Error) -> None:
        partition = marker.completion.partition
        partition.epoch = max(partition.epoch, self._leader_epoch(partition.number))
        marker.refusals += 1
        if marker.refusals == 1:
            logger.warning(
                "%s refuses the marker of %s: %s; it is sent again with coordinator epoch %d",
                marker.at,
                marker.transactional_id,
                error.name,
                partition.epoch,
            )
            self._pause(marker)
            return
        self.abandoned += 1
        logger.error(
            "%s refuses the marker of %s again: %s; the transaction completes without it",
            marker.at,
            marker.transactional_id,
            error.name,
        )
        self._acknowledge(marker)

    def _pause(self, marker: WaitingMarker) -> None:
        if marker.completion.is_over:
            return
        pause = min(PAUSE_MIN_MS << min(marker.attempts, 10), PAUSE_MAX_MS)
        marker.attempts += 1
        timer = self._pauses[marker] = CallTimer(lambda: self._go_on(marker))
        self._timer.add(timer, pause)

    def _go_on(self, marker: WaitingMarker) -> None:
        self._pauses.pop(marker, None)
        self._route([marker])

    def _acknowledge(self, marker: WaitingMarker) -> None:
        completion = marker.completion
        if completion.is_over:
            return
        completion.transaction.unmarked.discard(marker.at)
        if not completion.transaction.unmarked:
            self._complete(completion)

    def _complete(self, completion: Completion) -> None:
        completion.is_over = True
        self._completions.pop(completion, None)
        self._on_marked(completion.partition, completion.transaction)
