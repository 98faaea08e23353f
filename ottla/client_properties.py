"""The properties of Kafka's Java clients as arguments of `ottla.client`.

A tool that takes ``--producer.config`` and ``--consumer-property`` reads what operators have written for Java. Each
property is served, without effect here, or refused, because leaving it out would change what happens. Unknown ones
are returned for a warning, as Java warns of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from security.client_config import client_security
from security.errors import SecurityConfigError

_Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class ClientArguments:
    """What properties ask for.

    Attributes:
        bootstrap_servers: ``bootstrap.servers``, empty where it is not set.
        connection: Arguments of `connect`.
        options: Arguments of `Kafka.producer`, `Kafka.reader` or `Kafka.group`.
        own: Values that are not arguments, by property: those that a tool acts on itself.
        unknown: The properties that are not known.
    """

    bootstrap_servers: str
    connection: dict[str, Any]
    options: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


def _seconds(text: str) -> float:
    return int(text) / 1000


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _choice(**values: Any) -> _Parse:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise ValueError(f"it is one of {', '.join(values)}")
        return values[text.lower()]

    return parse


def _acks(text: str) -> Any:
    if text not in ("all", "-1", "0", "1"):
        raise ValueError("it is one of all, -1, 0 and 1")
    return "all" if text in ("all", "-1") else int(text)


def _assignors(text: str) -> tuple[str, ...]:
    found = tuple(_ASSIGNORS.get(name.strip().rpartition(".")[2], name.strip()) for name in text.split(","))
    unknown = sorted(set(found) - set(_ASSIGNORS.values()))
    if unknown:
        raise ValueError(f"{unknown[0]} is Java, which cannot be loaded here")
    return found


_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_CONNECTION: Final[Mapping[str, tuple[str, _Parse]]] = {
    "client.id": ("client_id", str),
    "client.rack": ("rack", str),
    "request.timeout.ms": ("request_timeout", _seconds),
    "reconnect.backoff.ms": ("reconnect_backoff", _seconds),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max", _seconds),
    "retry.backoff.ms": ("retry_backoff", _seconds),
    "retry.backoff.max.ms": ("retry_backoff_max", _seconds),
    "socket.connection.setup.timeout.ms": ("connection_setup_timeout", _seconds),
    "socket.connection.setup.timeout.max.ms": ("connection_setup_timeout_max", _seconds),
    "connections.max.idle.ms": ("connections_max_idle", _seconds),
    "metadata.max.age.ms": ("metadata_max_age", _seconds),
}
_PRODUCER: Final[Mapping[str, tuple[str, _Parse]]] = {
    "acks": ("acks", _acks),
    "enable.idempotence": ("idempotent", _flag),
    "linger.ms": ("linger", _seconds),
    "batch.size": ("batch_size", int),
    "buffer.memory": ("room", int),
    "max.request.size": ("max_request_size", int),
    "compression.type": (
        "compression",
        _choice(none="none", gzip="gzip", snappy="snappy", lz4="lz4", zstd="zstd"),
    ),
    "delivery.timeout.ms": ("delivery_timeout", _seconds),
    "max.block.ms": ("topic_timeout", _seconds),
}
_CONSUMER: Final[Mapping[str, tuple[str, _Parse]]] = {
    "isolation.level": (
        "isolation",
        _choice(read_committed=READ_COMMITTED, read_uncommitted=READ_UNCOMMITTED),
    ),
    "fetch.min.bytes": ("min_bytes", int),
    "fetch.max.wait.ms": ("max_wait", _seconds),
    "fetch.max.bytes": ("max_bytes", int),
    "max.partition.fetch.bytes": ("partition_bytes", int),
    "check.crcs": ("check_crcs", _flag),
    "max.poll.records": ("max_records", int),
    "group.instance.id": ("instance_id", str),
    "partition.assignment.strategy": ("assignors", _assignors),
    "session.timeout.ms": ("session_timeout", _seconds),
    "heartbeat.interval.ms": ("heartbeat_interval", _seconds),
    "max.poll.interval.ms": ("rebalance_timeout", _seconds),
    "auto.commit.interval.ms": ("commit_interval", _seconds),
}
_CONSUMERS_OWN: Final[Mapping[str, _Parse]] = {
    "group.id": str,
    "auto.offset.reset": _choice(earliest=EARLIEST, latest=LATEST, none=None),
    "enable.auto.commit": _flag,
}
_PRODUCERS_OWN: Final[Mapping[str, _Parse]] = {
    "transactional.id": str,
    "transaction.timeout.ms": _seconds,
    "retries": int,
}
_WITHOUT_EFFECT: Final = frozenset(
    {
        "bootstrap.servers",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "send.buffer.bytes",  # the kernel sizes its buffers
        "receive.buffer.bytes",
        "client.dns.lookup",  # every address of a name is tried
        "max.in.flight.requests.per.connection",  # order is kept whatever it is
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "default.api.timeout.ms",
        "allow.auto.create.topics",
        "exclude.internal.topics",
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "group.protocol",
    }
)
_REFUSED: Final[Mapping[str, str]] = {
    "interceptor.classes": "interceptors are Java classes, which cannot be loaded here",
    "partitioner.class": "partitioners are Java classes, which cannot be loaded here",
}


def producer_arguments(properties: Mapping[str, str], wall_ms: Callable[[], int]) -> ClientArguments:
    """Return what a producer's properties ask for.

    Args:
        properties: By their Kafka names.
        wall_ms: The wall clock, for bearer tokens.

    Raises:
        ValueError: A value cannot be used, or a property is refused; the text names it.
    """
    return _arguments(properties, _PRODUCER, _PRODUCERS_OWN, wall_ms)


def consumer_arguments(properties: Mapping[str, str], wall_ms: Callable[[], int]) -> ClientArguments:
    """Return what a consumer's properties ask for; raises as `producer_arguments`."""
    return _arguments(properties, _CONSUMER, _CONSUMERS_OWN, wall_ms)


def _arguments(
    properties: Mapping[str, str],
    served: Mapping[str, tuple[str, _Parse]],
    own: Mapping[str, _Parse],
    wall_ms: Callable[[], int],
) -> ClientArguments:
    security = client_security(properties, wall_ms)
    connection: dict[str, Any] = {"tls": security.context, "sasl": security.credentials}
    options: dict[str, Any] = {}
    found: dict[str, Any] = {}
    unknown = []
    for name, text in properties.items():
        text = text.strip()
        if name in _REFUSED:
            raise SecurityConfigError(name, _REFUSED[name])
        try:
            if name in _CONNECTION:
                argument, parse = _CONNECTION[name]
                connection[argument] = parse(text)
            elif name in served:
                argument, parse = served[name]
                options[argument] = parse(text)
            elif name in own:
                found[name] = own[name](text)
            elif not _is_known(name):
                unknown.append(name)
        except ValueError as error:
            reason = "it is a number" if str(error).startswith("invalid literal") else error
            raise ValueError(f"{name}={text}: {reason}") from None
    return ClientArguments(
        properties.get("bootstrap.servers", ""), connection, options, found, tuple(unknown)
    )


def _is_known(name: str) -> bool:
    known = name in _WITHOUT_EFFECT or name in _PRODUCER or name in _CONSUMER
    return (
        known
        or name in _PRODUCERS_OWN
        or name in _CONSUMERS_OWN
        or name.startswith(("security.", "ssl.", "sasl."))
    )
