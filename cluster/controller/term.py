"""One term of office: everything that belongs to this controller epoch and ends with it."""

from typing import Any

from cluster.controller.channels import Channels
from cluster.controller.context import ControllerContext
from cluster.controller.partition_transitions import PartitionTransitions
from cluster.controller.replica_transitions import ReplicaTransitions
from cluster.controller.request_batch import RequestBatch
from cluster.controller.settings import ControllerSettings, RequestVersions, inter_broker_listener
from cluster.controller.watches import Watches
from cluster.zookeeper.controller_store import ControllerStore
from wire.types import BrokerId, ControllerEpoch


class Term:
    """What the steps of the controller share.

    Attributes:
        controller_id: This broker.
        context: What the controller knows.
        store: ZooKeeper, behind the fence of this term.
        settings: This broker's configuration.
        watches: What to leave with reads.
        channels: To the brokers.
        batch: What is to be told at the end of the step.
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
    ) -> None:
        self.controller_id = controller_id
        self.context = ControllerContext(epoch)
        self.store = store
        self.settings = settings
        self.watches = watches
        self.channels = channels
        self.batch = RequestBatch(
            self.context,
            controller_id,
            RequestVersions.for_protocol(settings.inter_broker_protocol_version),
            inter_broker_listener(settings),
            channels.put,
        )
        self.partitions = PartitionTransitions(self.context, store, self.batch, settings)
        self.replicas = ReplicaTransitions(self.context, store, self.batch)

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
            "topics": len(context.topics),
            "partitions": sum(map(len, context.topics.values())),
            "leaderless": [str(partition) for partition in context.leaderless_partitions()],
            "preferred_imbalance": self._misplaced(),
            "reassigning": [str(partition) for partition in sorted(context.reassigning)],
            "deleting": sorted(context.deletion_queued),
            "deletions_waiting": sorted(context.deletion_halted),
            "unclean_elections": self.partitions.unclean_elections,
            "unsent_requests": {str(broker): count for broker, count in self.channels.backlog().items()},
        }

    def _misplaced(self) -> int:
        """Count the partitions that another broker leads than the preferred one."""
        leaderships = self.context.leaderships
        return sum(
            (leadership := leaderships.get(partition)) is not None
            and leadership.leader != assignment.replicas[0]
            for partition, assignment in self.context.all_partitions()
            if assignment.replicas and partition.topic not in self.context.deletion_queued
        )
