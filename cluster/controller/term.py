"""One term of office: everything that belongs to this controller epoch and ends with it."""

from dataclasses import asdict, dataclass
from typing import Any

from cluster.controller.channels import Channels
from cluster.controller.context import ControllerContext
from cluster.controller.partition_transitions import PartitionTransitions
from cluster.controller.replica_transitions import ReplicaTransitions
from cluster.controller.request_batch import RequestBatch
from cluster.controller.settings import ControllerSettings, RequestVersions
from cluster.controller.state_changes import OnStateChange
from cluster.controller.watches import Watches
from cluster.metrics.catalogue import BrokerMetrics
from cluster.zookeeper.controller_store import ControllerStore
from wire.types import BrokerId, ControllerEpoch


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """The counts behind the controller's gauges; all 0 for a broker that is not the controller.

    Attributes:
        topics: Topics of the cluster.
        partitions: Their partitions.
        offline_partitions: Partitions without a leader that can be reached.
        preferred_imbalance: Partitions that are not led by their preferred broker.
    """

    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    preferred_imbalance: int = 0


class Term:
    """What the steps of the controller share.

    Attributes:
        controller_id: This broker.
        context: What the controller knows.
        store: ZooKeeper, behind the fence of this term.
        settings: This broker's configuration.
        watches: The watches to set with reads.
        channels: To the brokers.
        batch: The requests that are sent at the end of the step.
        partitions: Applies events to partitions.
        replicas: Applies events to replicas.
    """

    def __init__(
        self,
        controller_id: BrokerId,
        epoch: ControllerEpoch,
        store: ControllerStore,
        settings: ControllerSettings,
        watches: Watches,
        channels: Channels,
        metrics: BrokerMetrics,
        on_state_change: OnStateChange | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.context = ControllerContext(epoch, on_state_change)
        self.store = store
        self.settings = settings
        self.watches = watches
        self.channels = channels
        self.batch = RequestBatch(
            self.context,
            controller_id,
            RequestVersions.for_protocol(settings.inter_broker_protocol_version),
            settings.inter_broker_listener,
            channels.put,
        )
        self.partitions = PartitionTransitions(self.context, store, self.batch, settings, metrics)
        self.replicas = ReplicaTransitions(self.context, store, self.batch)

    def statistics(self) -> "TermStatistics":
        """Return the counts behind the controller's gauges."""
        context = self.context
        leaderships = context.leaderships
        offline = misplaced = 0
        for partition, assignment in context.all_partitions():
            if partition.topic in context.deletion_queued or not assignment.replicas:
                continue
            leadership = leaderships.get(partition)
            offline += leadership is None or not context.is_reachable(partition, leadership.leader)
            misplaced += leadership is not None and leadership.leader != assignment.replicas[0]
        return TermStatistics(
            topics=len(context.topics),
            partitions=sum(map(len, context.topics.values())),
            offline_partitions=offline,
            preferred_imbalance=misplaced,
        )

    def describe(self) -> dict[str, Any]:
        """Describe the controller's knowledge in plain types, counts rather than lists of partitions."""
        context = self.context
        return {
            "epoch": context.epoch,
            "brokers": [
                {
                    "id": broker_id,
                    "epoch": broker.epoch,
                    "shutting_down": broker_id in context.shutting_down,
                    "endpoints": [endpoint.text for endpoint in broker.endpoints],
                    "rack": broker.rack,
                    "offline_replicas": len(context.offline_directories.get(broker_id, ())),
                }
                for broker_id, broker in sorted(context.brokers.items())
            ],
            **asdict(self.statistics()),
            "leaderless": [str(partition) for partition in context.leaderless_partitions()],
            "reassigning": [str(partition) for partition in sorted(context.reassigning)],
            "deleting": sorted(context.deletion_queued),
            "deletions_waiting": sorted(context.deletion_halted),
            "unclean_elections": self.partitions.unclean_elections,
            "unsent_requests": {str(broker): count for broker, count in self.channels.backlog().items()},
        }
