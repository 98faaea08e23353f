"""The requests to the brokers, gathered over one step and sent at its end.

Rules:

- Only durable decisions are added.
- A later entry for a partition replaces an earlier one of the same batch.
- Leaders and followers come first (LeaderAndIsr), then every broker learns of them (UpdateMetadata), then
  replicas are stopped (StopReplica): a leader knows its role before clients learn of it, and a follower is
  stopped only when its leader no longer counts on it.
- Every LeaderAndIsr is accompanied by an UpdateMetadata to all registered brokers, those shutting down
  included.
- An UpdateMetadata without partitions still carries the list of live brokers.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

import trio

from cluster.controller.channels import ControlRequest
from cluster.controller.context import ControllerContext
from cluster.controller.settings import RequestVersions
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.znodes import BrokerRegistration
from wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from wire.types import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)

MAX_PARTITIONS_PER_REQUEST: Final = 4000
"""Larger requests are split, so that neither end's loop stalls over one.

It is the number of replicas that Kafka recommends per broker: up to that number a starting broker learns of all its
replicas in one request, which Kafka's brokers expect before they write their high watermarks.
"""

PARTITIONS_PER_TURN: Final = 500
"""How many partitions are worked on before the broker's other tasks get a turn."""

SECURITY_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_State = TypeVar("_State")
_Put = Callable[[BrokerId, ControlRequest], None]


class RequestBatch:
    """The requests of one step, by broker."""

    def __init__(
        self,
        context: ControllerContext,
        controller_id: BrokerId,
        versions: RequestVersions,
        listener_name: str,
        put: _Put,
    ) -> None:
        """Make an empty batch.

        Args:
            context: What the controller knows; it is read at ``flush``.
            controller_id: This broker.
            versions: Of the requests.
            listener_name: The listener on which brokers talk to each other.
            put: Queues a request to a broker.
        """
        self._context = context
        self._controller_id = controller_id
        self._versions = versions
        self._listener_name = listener_name
        self._put = put
        self._roles: dict[BrokerId, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._stops: dict[BrokerId, dict[TopicPartition, bool]] = {}

    def tell_role(
        self,
        brokers: Iterable[BrokerId],
        partition: TopicPartition,
        leadership: PartitionLeadership,
        assignment: PartitionAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Tell some replicas of a partition its leadership, and every broker its metadata.

        Args:
            brokers: The brokers of the replicas to tell.
            partition: The partition.
            leadership: As it stands in ZooKeeper.
            assignment: Its replicas.
            is_new: Whether the replica may be placed in any directory of its broker.
        """
        states: dict[bool, LeaderAndIsrPartitionState] = {}
        for broker_id in brokers:
            of_broker = self._roles.setdefault(broker_id, {})
            before = of_broker.get(partition)
            new = is_new or (before is not None and before.is_new)
            if new not in states:
                states[new] = self._role_state(partition, leadership, assignment, is_new=new)
            of_broker[partition] = states[new]
        self.update_metadata((partition,))

    def update_metadata(
        self, partitions: Iterable[TopicPartition] = (), brokers: Collection[BrokerId] | None = None
    ) -> None:
        """Tell some brokers, or all, the leaders of some partitions, and which brokers live.

        Args:
            partitions: Those without a leadership are skipped.
            brokers: The brokers to tell; ``None`` for all.
        """
        self._metadata_brokers.update(self._context.brokers if brokers is None else brokers)
        self._metadata.update(dict.fromkeys(partitions))

    def stop_replica(self, broker_id: BrokerId, partition: TopicPartition, *, delete: bool) -> None:
        """Tell a broker to stop a replica.

        Args:
            broker_id: The broker.
            partition: The replica's partition.
            delete: Delete its data, too.
        """
        of_broker = self._stops.setdefault(broker_id, {})
        of_broker[partition] = delete or of_broker.get(partition, False)

    async def flush(self) -> None:
        """Queue everything to the brokers that are registered, and empty the batch.

        It gives other tasks of the broker a turn between requests. The batch is emptied first, so that cancellation
        drops what was not queued yet, and nothing is queued twice.
        """
        roles, self._roles = self._roles, {}
        metadata, self._metadata = self._metadata, {}
        metadata_brokers, self._metadata_brokers = self._metadata_brokers, set()
        stops, self._stops = self._stops, {}
        for broker_id in sorted(roles.keys() & self._context.brokers.keys()):
            await self._put_roles(broker_id, roles[broker_id])
        await self._put_metadata(sorted(metadata_brokers & self._context.brokers.keys()), metadata)
        for broker_id in sorted(stops.keys() & self._context.brokers.keys()):
            await self._put_stops(broker_id, stops[broker_id])

    def _role_state(
        self,
        partition: TopicPartition,
        leadership: PartitionLeadership,
        assignment: PartitionAssignment,
        *,
        is_new: bool,
    ) -> LeaderAndIsrPartitionState:
        knows_recovery = self._versions.leader_and_isr >= 6
        return LeaderAndIsrPartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            partition_epoch=leadership.zk_version,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=int(leadership.recovering and knows_recovery),
        )

    async def _put_roles(
        self, broker_id: BrokerId, states: dict[TopicPartition, LeaderAndIsrPartitionState]
    ) -> None:
        context = self._context
        for part in _cut(states):
            leaders = {state.leader for state in part.values()}
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=context.epoch,
                broker_epoch=context.brokers[broker_id].epoch,
                topic_states=[
                    LeaderAndIsrTopicState(
                        topic_name=topic, topic_id=context.topic_id(topic), partition_states=of_topic
                    )
                    for topic, of_topic in _by_topic(part)
                ],
                live_leaders=[
                    leader
                    for leader_id in sorted(leaders & context.brokers.keys())
                    if (leader := self._live_leader(context.brokers[leader_id])) is not None
                ],
            )
            self._put(broker_id, ControlRequest(request, self._versions.leader_and_isr))
            await trio.lowlevel.checkpoint()

    def _live_leader(self, registration: BrokerRegistration) -> LeaderAndIsrLiveLeader | None:
        endpoint = registration.endpoint(self._listener_name)
        if endpoint is None:
            return None
        return LeaderAndIsrLiveLeader(
            broker_id=registration.broker_id, host_name=endpoint.host, port=endpoint.port
        )

    async def _put_metadata(
        self, broker_ids: Sequence[BrokerId], partitions: dict[TopicPartition, None]
    ) -> None:
        if not broker_ids:
            return
        context = self._context
        states: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        for index, partition in enumerate(partitions):
            if index % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            leadership = context.leaderships.get(partition)
            if leadership is not None:
                states[partition] = self._metadata_state(partition, leadership)
        live_brokers = [_metadata_broker(broker) for _, broker in sorted(context.brokers.items())]
        for part in _cut(states) if states else [states]:
            topic_states = [
                UpdateMetadataTopicState(
                    topic_name=topic, topic_id=context.topic_id(topic), partition_states=of_topic
                )
                for topic, of_topic in _by_topic(part)
            ]
            for broker_id in broker_ids:
                registration = context.brokers.get(broker_id)
                if registration is None:
                    continue
                request = UpdateMetadataRequest(
                    controller_id=self._controller_id,
                    controller_epoch=context.epoch,
                    broker_epoch=registration.epoch,
                    topic_states=topic_states,
                    live_brokers=live_brokers,
                )
                self._put(broker_id, ControlRequest(request, self._versions.update_metadata))
            await trio.lowlevel.checkpoint()

    def _metadata_state(
        self, partition: TopicPartition, leadership: PartitionLeadership
    ) -> UpdateMetadataPartitionState:
        context = self._context
        replicas = context.assignment(partition).replicas
        offline = [replica for replica in replicas if not context.is_online(partition, replica)]
        # On this leader a broker forgets the partition, and refuses its clients from then on.
        going = partition.topic in context.deletion_queued
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if going else leadership.leader,
            leader_epoch=LeaderEpoch(0) if going else leadership.leader_epoch,
            isr=leadership.isr,
            zk_version=ZkVersion(0) if going else leadership.zk_version,
            replicas=replicas,
            offline_replicas=offline,
        )

    async def _put_stops(self, broker_id: BrokerId, stops: dict[TopicPartition, bool]) -> None:
        for part in _cut(stops):
            states = {
                partition: StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=self._stop_epoch(partition),
                    delete_partition=delete,
                )
                for partition, delete in part.items()
            }
            request = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=self._context.brokers[broker_id].epoch,
                topic_states=[
                    StopReplicaTopicState(topic_name=topic, partition_states=of_topic)
                    for topic, of_topic in _by_topic(states)
                ],
            )
            self._put(broker_id, ControlRequest(request, self._versions.stop_replica))
            await trio.lowlevel.checkpoint()

    def _stop_epoch(self, partition: TopicPartition) -> LeaderEpoch:
        # For a deletion the sentinel overrides any epoch that the broker knows.
        if partition.topic in self._context.deletion_queued:
            return EPOCH_DURING_DELETE
        leadership = self._context.leaderships.get(partition)
        return NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch


def _cut(states: dict[TopicPartition, _State]) -> Iterable[dict[TopicPartition, _State]]:
    """Split into parts of at most ``MAX_PARTITIONS_PER_REQUEST``."""
    if len(states) <= MAX_PARTITIONS_PER_REQUEST:
        return (states,)
    items = iter(states.items())
    return iter(lambda: dict(islice(items, MAX_PARTITIONS_PER_REQUEST)), {})


def _by_topic(states: dict[TopicPartition, _State]) -> Iterable[tuple[str, list[_State]]]:
    grouped: dict[str, list[_State]] = {}
    for partition, state in states.items():
        grouped.setdefault(partition.topic, []).append(state)
    return grouped.items()


def _metadata_broker(registration: BrokerRegistration) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=registration.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in registration.endpoints
        ],
        rack=registration.rack,
    )
