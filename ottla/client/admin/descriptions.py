"""Arguments and results of the admin client: plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from wire.types import BrokerId, LeaderEpoch, Offset, TopicId, WallMs


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: a count of -1 means the broker's default; an assignment excludes both counts."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker, as clients reach it."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as the cluster sees it; the leader is -1 where there is none."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions, in order."""

    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, its controller (-1: none) and its live brokers, by id."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: Mapping[BrokerId, Broker]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way from some replicas to others."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas that it will have when it is done."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class ResourceKind(IntEnum):
    """The kinds of resource that have a configuration, as numbered on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigResource(NamedTuple):
    """A topic or a broker by name; the broker without a name stands for the default of all brokers."""

    kind: ResourceKind
    name: str


class ConfigSource(IntEnum):
    """Where the value of a setting comes from, as numbered on the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":  # noqa: ARG003 - enum's signature
        return cls.UNKNOWN


class ConfigOperation(IntEnum):
    """How a setting is changed, as numbered on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSynonym(NamedTuple):
    """One of the places that a value could come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of a setting, None where it is secret or there is none."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting; the value of a deletion is None."""

    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaOnDisk:
    """What one replica holds on one disk, in bytes, and how far it is behind, in records."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a broker; sizes of the volume are -1 if the broker does not report them."""

    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaOnDisk, ...]


class FoundOffset(NamedTuple):
    """An offset, with the timestamp of its record where it was asked for by time, else -1."""

    offset: Offset
    timestamp: WallMs
    leader_epoch: LeaderEpoch
