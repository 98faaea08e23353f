"""The properties of Kafka's old consumer, with its defaults and its checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ottla.old_consumer.assignment import ASSIGNORS, RANGE

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Storage(Enum):
    """Where a group's offsets are."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


class Reset(Enum):
    """Where to begin without an offset, and where the offset is out of the log's range."""

    SMALLEST = "smallest"
    LARGEST = "largest"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldConsumerSettings:
    """How a consumer works; times in seconds, sizes in bytes. The names are those of Kafka's properties.

    Attributes:
        group_id: The group.
        zookeeper_connect: ``host:port,host:port/chroot``.
        consumer_id: The consumer's own name in place of a random one.
        client_id: What brokers see; the group's id where it is empty.
        zookeeper_session_timeout: How long a dead consumer keeps its partitions.
        zookeeper_connection_timeout: How long the first connection may take; None for the session timeout.
        socket_timeout: How long a broker may take to answer.
        fetch_message_max_bytes: The most bytes of one partition in an answer.
        queued_max_message_chunks: How many such answers wait for each partition.
        fetch_min_bytes: A broker waits for this many.
        fetch_wait_max: ... for this long.
        refresh_leader_backoff: How long to wait after a partition failed.
        auto_commit: Whether positions are committed periodically, at each rebalance and at the end.
        auto_commit_interval: How often.
        offsets_storage: Where.
        dual_commit: Whether offsets that go to Kafka go to ZooKeeper, too.
        offsets_commit_max_retries: How often a commit to Kafka is repeated.
        offsets_channel_backoff: ... after this long.
        auto_offset_reset: Where to begin without an offset.
        consumer_timeout: After how long without a record a stream raises `ConsumerTimeout`; None: never.
        exclude_internal_topics: Whether filters pass over Kafka's own topics.
        assignment_strategy: ``range`` or ``roundrobin``.
        rebalance_max_retries: How many attempts a rebalance has.
        rebalance_backoff: How long to wait between them.
    """

    group_id: str
    zookeeper_connect: str
    consumer_id: str | None = None
    client_id: str = ""
    zookeeper_session_timeout: float = 6.0
    zookeeper_connection_timeout: float | None = None
    socket_timeout: float = 30.0
    fetch_message_max_bytes: int = 1_048_576
    queued_max_message_chunks: int = 2
    fetch_min_bytes: int = 1
    fetch_wait_max: float = 0.1
    refresh_leader_backoff: float = 0.2
    auto_commit: bool = True
    auto_commit_interval: float = 60.0
    offsets_storage: Storage = Storage.ZOOKEEPER
    dual_commit: bool | None = None
    offsets_commit_max_retries: int = 5
    offsets_channel_backoff: float = 1.0
    auto_offset_reset: Reset = Reset.LARGEST
    consumer_timeout: float | None = None
    exclude_internal_topics: bool = True
    assignment_strategy: str = RANGE
    rebalance_max_retries: int = 4
    rebalance_backoff: float = 2.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: One cannot be used; the text names its property.
        """
        for name, value in (
            ("group.id", self.group_id),
            ("client.id", self.client_id),
            ("consumer.id", self.consumer_id or ""),
        ):
            if not set(value) <= _NAME_CHARACTERS:
                raise ValueError(f"{name}={value}: letters, digits, '.', '_' and '-' are allowed")
        if not self.group_id:
            raise ValueError("group.id is missing")
        if not self.zookeeper_connect:
            raise ValueError("zookeeper.connect is missing")
        if self.fetch_wait_max > self.socket_timeout:
            raise ValueError("fetch.wait.max.ms must not be longer than socket.timeout.ms")
        for property_name, number in (
            ("fetch.message.max.bytes", self.fetch_message_max_bytes),
            ("queued.max.message.chunks", self.queued_max_message_chunks),
            ("rebalance.max.retries", self.rebalance_max_retries),
            ("zookeeper.session.timeout.ms", self.zookeeper_session_timeout),
        ):
            if number <= 0:
                raise ValueError(f"{property_name} must be positive")

    @property
    def commits_to_zookeeper(self) -> bool:
        """Whether offsets are written to ZooKeeper."""
        return self.offsets_storage is Storage.ZOOKEEPER or self.is_dual

    @property
    def is_dual(self) -> bool:
        """Whether offsets that are in Kafka are in ZooKeeper, too; they are by default, for the way back."""
        is_kafka = self.offsets_storage is Storage.KAFKA
        return is_kafka and (self.dual_commit is None or self.dual_commit)


def _seconds(text: str) -> float:
    return int(text) / 1000


def _seconds_or_never(text: str) -> float | None:
    return None if int(text) < 0 else int(text) / 1000


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise ValueError(f"it is one of {', '.join(values)}")
        return values[text.lower()]

    return parse


_PROPERTIES: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "group.id": ("group_id", str),
    "zookeeper.connect": ("zookeeper_connect", str),
    "consumer.id": ("consumer_id", str),
    "client.id": ("client_id", str),
    "zookeeper.session.timeout.ms": ("zookeeper_session_timeout", _seconds),
    "zookeeper.connection.timeout.ms": ("zookeeper_connection_timeout", _seconds),
    "socket.timeout.ms": ("socket_timeout", _seconds),
    "fetch.message.max.bytes": ("fetch_message_max_bytes", int),
    "queued.max.message.chunks": ("queued_max_message_chunks", int),
    "fetch.min.bytes": ("fetch_min_bytes", int),
    "fetch.wait.max.ms": ("fetch_wait_max", _seconds),
    "refresh.leader.backoff.ms": ("refresh_leader_backoff", _seconds),
    "auto.commit.enable": ("auto_commit", _flag),
    "auto.commit.interval.ms": ("auto_commit_interval", _seconds),
    "offsets.storage": ("offsets_storage", _one_of({each.value: each for each in Storage})),
    "dual.commit.enabled": ("dual_commit", _flag),
    "offsets.commit.max.retries": ("offsets_commit_max_retries", int),
    "offsets.channel.backoff.ms": ("offsets_channel_backoff", _seconds),
    "auto.offset.reset": ("auto_offset_reset", _one_of({each.value: each for each in Reset})),
    "consumer.timeout.ms": ("consumer_timeout", _seconds_or_never),
    "exclude.internal.topics": ("exclude_internal_topics", _flag),
    "partition.assignment.strategy": ("assignment_strategy", _one_of({each: each for each in ASSIGNORS})),
    "rebalance.max.retries": ("rebalance_max_retries", int),
    "rebalance.backoff.ms": ("rebalance_backoff", _seconds),
}
_SYNC_TIME: Final = "zookeeper.sync.time.ms"
_WITHOUT_EFFECT: Final = frozenset(
    {
        _SYNC_TIME,  # but for the default of rebalance.backoff.ms
        "num.consumer.fetchers",  # one connection fetches all of a broker's partitions at once
        "socket.receive.buffer.bytes",  # the kernel sizes its buffers
        "offsets.channel.socket.timeout.ms",  # socket.timeout.ms holds for every connection
    }
)


def parse_properties(properties: Mapping[str, str]) -> tuple[OldConsumerSettings, tuple[str, ...]]:
    """Return the settings that properties ask for, and the unknown properties.

    Raises:
        ValueError: A value cannot be used, or a required one is missing; the text names it.
    """
    found: dict[str, Any] = {"group_id": "", "zookeeper_connect": ""}
    unknown = []
    for name, text in properties.items():
        if name in _PROPERTIES:
            argument, parse = _PROPERTIES[name]
            found[argument] = _parsed(name, text.strip(), parse)
        elif name not in _WITHOUT_EFFECT:
            unknown.append(name)
    if _SYNC_TIME in properties:
        found.setdefault("rebalance_backoff", _parsed(_SYNC_TIME, properties[_SYNC_TIME].strip(), _seconds))
    return OldConsumerSettings(**found), tuple(unknown)


def _parsed(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        reason = "it is a number" if str(error).startswith("invalid literal") else error
        raise ValueError(f"{name}={text}: {reason}") from None
