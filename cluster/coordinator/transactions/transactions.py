"""Transactions on one broker, put together: settings in; markers and verification out."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.coordinator.transactions.marker_writes import MarkerWrites
from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.coordinator.transactions.verifier import Verifier
from cluster.replication.leader.verified_appends import Question
from wire.errors import Error
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    import trio

    from cluster.configuration.broker_config import BrokerConfig
    from cluster.coordinator.groups import Groups
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.broker_client import BrokerChannel
    from cluster.replication.metadata_cache import MetadataCache, Node
    from cluster.replication.replicas import Replicas
    from timing.clock import Clock


class Transactions:
    """Everything about transactions that requests and the broker's tasks reach.

    Args:
        config: The broker's settings.
        replicas: Its partitions, whose transactional appends are verified from here.
        metadata: Tells where brokers are.
        groups: Its groups, whose offsets transactions hold.
        clock: Both clocks.
        nursery: Where requests to other brokers run; ends with the broker.
        connect: Makes a channel to another broker.
        metrics: What is counted into.

    Attributes:
        marker_writes: Writes markers to the partitions led here.
        verifier: Asks coordinators about transactions.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        replicas: "Replicas",
        metadata: "MetadataCache",
        groups: "Groups",
        clock: "Clock",
        nursery: "trio.Nursery",
        connect: "Callable[[Node], BrokerChannel]",
        metrics: "BrokerMetrics",
    ) -> None:
        self._metadata = metadata
        self._listener = config.inter_broker_listener
        self._connect = connect
        self.marker_writes = MarkerWrites(replicas, groups.offsets, clock, config.request_timeout_ms)
        self.verifier = Verifier(
            config.broker_id,
            lambda _: None,
            self._verify,
            self._channel_to,
            nursery,
            clock,
            metrics,
        )
        replicas.verified_appends.ask = self.verifier.ask

    def _verify(self, question: Question) -> Mapping[TopicPartition, Error]:
        return dict.fromkeys(question.partitions, Error.NOT_COORDINATOR)

    def _channel_to(self, broker_id: BrokerId) -> PeerChannel:
        return PeerChannel(lambda: self._metadata.node(broker_id, self._listener), self._connect)
