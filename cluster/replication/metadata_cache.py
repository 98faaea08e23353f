"""The cluster as of the last UpdateMetadata: live brokers, topics, and each partition's leader.

Rules of this file:

- A snapshot never changes. An update builds the next one, copying only the topics that it names, and swaps it in;
  a reader takes ``snapshot`` once and keeps it for its whole operation.
- Live brokers are replaced as a whole, partitions are merged: partial updates are normal. A partition whose leader is
  ``LEADER_DURING_DELETE`` is removed, and with the last one its topic.
- The object under ``snapshot.topics[name]`` is replaced exactly when the topic changed, and ``snapshot.brokers``
  when brokers did: answers encoded from them may be cached by their identity.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from cluster.network.endpoints import SecurityProtocol
from wire.errors import RemoteProtocolError
from wire.types import LEADER_DURING_DELETE, NO_TOPIC_ID, BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from wire.messages.update_metadata import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

_PROTOCOLS: Final = {protocol.value: protocol for protocol in SecurityProtocol}


class Node(NamedTuple):
    """Where one broker is reached on one of its listeners."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None
    security_protocol: SecurityProtocol


@dataclass(frozen=True, slots=True, eq=False)
class LiveBroker:
    """A broker that the controller considers alive.

    Attributes:
        broker_id: Its id.
        rack: Its rack, if it has one.
        nodes: Its addresses by listener name.
    """

    broker_id: BrokerId
    rack: str | None
    nodes: Mapping[str, Node]


Partitions = Mapping[int, "UpdateMetadataPartitionState"]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSnapshot:
    """The state of the cluster at one moment.

    Attributes:
        epoch: Counts the updates since the broker's start.
        controller_id: The active controller, or None if none is known.
        brokers: The live brokers by id.
        topics: The partitions of each topic by their number.
        topic_ids: The ids of the topics that have one.
        topic_names: The topics' names by id.
    """

    epoch: int = 0
    controller_id: BrokerId | None = None
    brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Partitions] = field(default_factory=lambda: MappingProxyType({}))
    topic_ids: Mapping[str, TopicId] = field(default_factory=lambda: MappingProxyType({}))
    topic_names: Mapping[TopicId, str] = field(default_factory=lambda: MappingProxyType({}))


class MetadataCache:
    """Holds the current `ClusterSnapshot`, and wakes the tasks that wait for the next one.

    Attributes:
        snapshot: The latest state; replaced by `update`, never changed.
    """

    __slots__ = ("_changed", "_shown", "_shown_of", "_suspects", "snapshot")

    def __init__(self) -> None:
        self.snapshot = self._shown = self._shown_of = ClusterSnapshot()
        self._suspects: frozenset[BrokerId] = frozenset()
        self._changed = trio.Event()

    @property
    def shown(self) -> ClusterSnapshot:
        """The snapshot for clients that ask for topics: without brokers that seem to be dead, so these lead nothing.

        A client that has lost its leader asks at once. If the answer names the same leader again, it can take long
        until the client asks again; if the answer names none, the client asks again soon.
        """
        if self._shown_of is not self.snapshot:
            self._shown_of = self._shown = self.snapshot
            brokers = self.snapshot.brokers
            if not self._suspects.isdisjoint(brokers):
                living = {each: broker for each, broker in brokers.items() if each not in self._suspects}
                self._shown = replace(self.snapshot, brokers=living)
        return self._shown

    def suspect(self, broker_id: BrokerId, *, is_suspect: bool) -> None:
        """Set whether a broker seems to be dead, before the controller knows it."""
        suspects = self._suspects - {broker_id} | ({broker_id} if is_suspect else set())
        if suspects != self._suspects:
            self._suspects = suspects
            self._shown_of = ClusterSnapshot()

    def update(self, request: "UpdateMetadataRequest") -> list[TopicPartition]:
        """Apply an UpdateMetadata request, and return the partitions that it deleted.

        The caller has checked the epochs of controller and broker.
        """
        old = self.snapshot
        topics = dict(old.topics)
        topic_ids = dict(old.topic_ids)
        topic_names = dict(old.topic_names)
        deleted: dict[TopicPartition, None] = {}
        for name, topic_id, states in _states_by_topic(request):
            former_id = topic_ids.pop(name, NO_TOPIC_ID)
            if former_id != topic_id:
                topic_names.pop(former_id, None)
            if topic_id != NO_TOPIC_ID:
                topic_ids[name] = topic_id
                topic_names[topic_id] = name
            partitions = dict(topics.get(name, {}))
            for state in states:
                if state.leader == LEADER_DURING_DELETE:
                    partitions.pop(state.partition_index, None)
                    deleted[TopicPartition(name, state.partition_index)] = None
                else:
                    partitions[state.partition_index] = state
                    deleted.pop(TopicPartition(name, state.partition_index), None)
            if partitions:
                topics[name] = partitions
            else:
                topics.pop(name, None)
                topic_names.pop(topic_ids.pop(name, NO_TOPIC_ID), None)
        controller_id = BrokerId(request.controller_id)
        self.snapshot = ClusterSnapshot(
            epoch=old.epoch + 1,
            controller_id=controller_id if controller_id >= 0 else None,
            brokers=_keep_if_equal(old.brokers, _live_brokers(request.live_brokers)),
            topics=topics,
            topic_ids=topic_ids,
            topic_names=topic_names,
        )
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        return list(deleted)

    async def wait_changed(self) -> None:
        """Wait for the next update. A caller checks its condition before the call, and again after each return."""
        await self._changed.wait()

    def partition(self, topic: str, partition: int) -> "UpdateMetadataPartitionState | None":
        """Return the state of one partition; None if it is unknown."""
        partitions = self.snapshot.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition exists, as far as this broker knows."""
        partitions = self.snapshot.topics.get(topic_partition.topic)
        return partitions is not None and topic_partition.partition in partitions

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether the controller considers this broker alive."""
        return broker_id in self.snapshot.brokers

    def node(self, broker_id: BrokerId, listener: str) -> Node | None:
        """Return a live broker's address on a listener; None if it is not live or has no such listener."""
        broker = self.snapshot.brokers.get(broker_id)
        return None if broker is None else broker.nodes.get(listener)


def _states_by_topic(
    request: "UpdateMetadataRequest",
) -> Iterable[tuple[str, TopicId, Iterable["UpdateMetadataPartitionState"]]]:
    """Return the request's partitions by topic, whichever of the two forms its version has."""
    for topic in request.topic_states:
        yield topic.topic_name, TopicId(topic.topic_id), topic.partition_states
    ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        ungrouped.setdefault(state.topic_name, []).append(state)
    for name, states in ungrouped.items():
        yield name, NO_TOPIC_ID, states


def _live_brokers(brokers: Iterable["UpdateMetadataBroker"]) -> dict[BrokerId, LiveBroker]:
    live: dict[BrokerId, LiveBroker] = {}
    for broker in brokers:
        broker_id = BrokerId(broker.id)
        nodes: dict[str, Node] = {}
        for endpoint in broker.endpoints:
            protocol = _PROTOCOLS.get(endpoint.security_protocol)
            if protocol is None:
                raise RemoteProtocolError(f"there is no security protocol {endpoint.security_protocol}")
            # Before version 3 an endpoint has no listener name: its protocol's doubles as one.
            nodes[endpoint.listener or protocol.name] = Node(
                broker_id, endpoint.host, endpoint.port, broker.rack, protocol
            )
        if broker.v0_host:
            plain = SecurityProtocol.PLAINTEXT
            nodes[plain.name] = Node(broker_id, broker.v0_host, broker.v0_port, broker.rack, plain)
        live[broker_id] = LiveBroker(broker_id, broker.rack, nodes)
    return live


def _keep_if_equal(
    old: Mapping[BrokerId, LiveBroker], new: Mapping[BrokerId, LiveBroker]
) -> Mapping[BrokerId, LiveBroker]:
    """Return the old mapping if nothing in it changed, so that values derived from it stay valid."""
    if old.keys() != new.keys():
        return new
    same = all(old[key].rack == new[key].rack and old[key].nodes == new[key].nodes for key in new)
    return old if same else new
