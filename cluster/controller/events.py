"""What the controller reacts to. Every event is a plain value: the queue can be printed, compared and
replayed.

An event that comes from ZooKeeper says "look again" and carries no news; two equal ones in the queue are one.
"""

from dataclasses import dataclass

from wire.errors import Error
from wire.messages.leader_and_isr import LeaderAndIsrResponse
from wire.types import BrokerEpoch, BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """``/controller`` appeared, changed or went: read who is controller, and stand for election if nobody is."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """Our session has expired: if we were the controller, we no longer are."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Brokers registered or went away."""


@dataclass(frozen=True, slots=True)
class BrokerModified:
    """A broker changed what it registered, its listeners for one."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics were created or removed."""


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """The assignment of a topic was written."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletionsChanged:
    """Topics were marked for deletion."""


@dataclass(frozen=True, slots=True)
class DeletionsLeft:
    """An earlier event left deletions of topics unfinished."""


@dataclass(frozen=True, slots=True)
class IsrChangesNotified:
    """Leaders announced that they wrote their ISR."""


@dataclass(frozen=True, slots=True)
class LogDirectoryFailed:
    """A broker announced that one of its log directories failed."""


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """``/admin/reassign_partitions`` was written."""


@dataclass(frozen=True, slots=True)
class PreferredElectionRequested:
    """``/admin/preferred_replica_election`` was written."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """``unclean.leader.election.enable`` was switched on.

    Attributes:
        topic: The topic; ``None`` for all.
    """

    topic: str | None


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """It is time to check whether leaders should move back to their preferred brokers."""


@dataclass(frozen=True, eq=False)
class LeaderAndIsrAnswered:
    """A broker answered a LeaderAndIsr request."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class DeletionAnswered:
    """A broker answered a StopReplica request that deletes replicas.

    Attributes:
        broker_id: The broker.
        broker_epoch: The registration that was asked.
        errors: The error for each partition that it was to delete.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    errors: tuple[tuple[TopicPartition, Error], ...]


@dataclass(frozen=True, slots=True)
class CallReceived:
    """A call of an API that only the active controller serves.

    Attributes:
        ticket: Identifies the caller, who waits for the outcome.
        call: What is asked (``cluster.controller.calls``).
    """

    ticket: int
    call: object


ControllerEvent = (
    ControllerChanged
    | SessionExpired
    | BrokersChanged
    | BrokerModified
    | TopicsChanged
    | PartitionsChanged
    | TopicDeletionsChanged
    | DeletionsLeft
    | IsrChangesNotified
    | LogDirectoryFailed
    | ReassignmentsRequested
    | PreferredElectionRequested
    | UncleanElectionEnabled
    | RebalanceDue
    | LeaderAndIsrAnswered
    | DeletionAnswered
    | CallReceived
)
