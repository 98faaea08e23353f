"""API calls to the active controller: each is a value that waits in the queue.

Two equal calls stay two: each caller waits for its own answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.controller.leader_elections import ElectionKind
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_partition import AlterPartitionRequest
from wire.types import BrokerEpoch, BrokerId, TopicPartition


@dataclass(frozen=True, eq=False)
class ControlledShutdown:
    """A broker asks for a controlled shutdown; answered with the partitions that it still leads."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, eq=False)
class AlterPartition:
    """A leader that runs Apache Kafka asks to have its ISR written; answered with the response."""

    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, eq=False)
class ElectLeaders:
    """Elections, of all partitions if none are named; answered with a leader or an error for each."""

    partitions: tuple[TopicPartition, ...] | None
    kind: ElectionKind


@dataclass(frozen=True, eq=False)
class Reassign:
    """Moves of partitions, ``None`` to cancel one; answered with an error or ``None`` for each."""

    targets: Mapping[TopicPartition, Sequence[BrokerId] | None]


@dataclass(frozen=True, eq=False)
class ListReassignments:
    """Which moves are under way, of all partitions if none are named; answered with their assignments."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, eq=False)
class AllocateProducerIds:
    """A broker that runs Apache Kafka asks for a block of producer ids; answered with the response."""

    request: AllocateProducerIdsRequest


Call = ControlledShutdown | AlterPartition | ElectLeaders | Reassign | ListReassignments | AllocateProducerIds
