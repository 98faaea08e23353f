"""The lines of kafka-broker-api-versions, kafka-log-dirs and kafka-leader-election."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.errors import ClientError
from ottla.commands.kafka_lines.groups import java_exception
from wire.errors import Error
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Broker, LogDirectory

_NOT_SERVED: Final = {
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    58: "Envelope",
    64: "UnregisterBroker",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    74: "ListClientMetricsResources",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
}
"""APIs that Kafka's clients of 3.9 know, which name those that a broker does not serve."""


def version_lines(
    broker: "Broker", apis: Mapping[int, tuple[str, tuple[int, int], int | None]]
) -> Iterator[str]:
    """Yield the versions that a broker serves.

    Args:
        broker: Which one.
        apis: Of each API: its name, the lowest and highest version served, and the version that we would use.
    """
    yield f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {broker.rack or 'null'}) -> ("
    lines = {key: f"\t{name}({key}): UNSUPPORTED" for key, name in _NOT_SERVED.items()}
    for key, (name, (low, high), usable) in apis.items():
        served = str(low) if low == high else f"{low} to {high}"
        known = f" [usable: {usable}]" if usable is not None else " [unusable: node too new]"
        lines[key] = f"\t{name}({key}): {served}{known}"
    ordered = [lines[key] for key in sorted(lines)]
    yield from (f"{line}," for line in ordered[:-1])
    yield ordered[-1]
    yield ")"


def failed_version_line(broker: "Broker", error: Exception) -> str:
    """Return the line of a broker that does not answer."""
    return f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {broker.rack or 'null'}) -> ERROR: {error}"


def strangers_line(strangers: Sequence[int], live: Sequence[int]) -> str:
    """Return what is printed, on stderr, where brokers are asked for that do not live."""
    return (
        f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, strangers))}. "
        f"Current existent brokers: {','.join(map(str, live))}"
    )


def replica_objects(directory: "LogDirectory") -> list[dict[str, object]]:
    """Return the replicas of a log directory as kafka-log-dirs has them in its JSON."""
    return [
        {
            "partition": f"{replica.topic}-{replica.partition}",
            "size": replica.size_bytes,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future,
        }
        for replica in directory.replicas
    ]


def log_dirs_lines(found: Mapping[int, Sequence["LogDirectory"]]) -> Iterator[str]:
    """Yield the log directories of brokers, as JSON on one line between two others."""
    yield "Querying brokers for log directories information"
    yield f"Received log directory information from brokers {','.join(map(str, found))}"
    brokers = [
        {
            "broker": broker_id,
            "logDirs": [
                {
                    "partitions": replica_objects(directory),
                    "error": directory.error,
                    "logDir": directory.path,
                }
                for directory in directories
            ],
        }
        for broker_id, directories in found.items()
    ]
    yield json.dumps({"version": 1, "brokers": brokers}, separators=(",", ":"))


def election_lines(kind: str, errors: Mapping[TopicPartition, ClientError | None]) -> Iterator[str]:
    """Yield what came of elections; ``kind`` is PREFERRED or UNCLEAN."""
    elected = [str(each) for each, error in sorted(errors.items()) if error is None]
    needless = [
        str(each)
        for each, error in sorted(errors.items())
        if error is not None and error.error is Error.ELECTION_NOT_NEEDED
    ]
    if elected:
        yield f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}"
    if needless:
        yield f"Valid replica already elected for partitions {', '.join(needless)}"
    for partition, error in sorted(errors.items()):
        if error is not None and error.error is not Error.ELECTION_NOT_NEEDED:
            name = java_exception(error.error or Error.UNKNOWN_SERVER_ERROR)
            text = f"{name}: {error}"
            yield f"Error completing leader election ({kind}) for partition: {partition}: {text}"
