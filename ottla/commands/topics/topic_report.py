"""What ``ottla topics --describe`` shows: which partitions, and how."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.kafka_lines.topics import partition_line, topic_line
from ottla.commands.terminal.console import new_table, numbers, open_console
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.commands.topics.reported_partition import ReportedPartition
from wire.types import TopicPartition, topic_id_text

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ConfigValue, Reassignment, TopicDescription

_MIN_ISR: Final = "min.insync.replicas"
_FILTERS: Final = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


async def report(admin: "Admin", names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Describe topics on the terminal, or as JSON."""
    topics = await admin.describe_topics(names) if names else []
    configs = await _configs(admin, names)
    live = frozenset((await admin.refresh()).brokers)
    moving = await _reassignments(admin)
    chosen = next((name for name in _FILTERS if options[name]), None)
    reported = []
    for topic in topics:
        # Kafka's tool counts what the brokers' files set, too.
        own = _beyond_defaults if prints_as_kafka() else _own
        overrides = {value.name: value.value for value in configs[topic.name] if own(value)}
        if options["topics_with_overrides"] and not overrides:
            continue
        min_isr = next((int(each.value or 1) for each in configs[topic.name] if each.name == _MIN_ISR), 1)
        partitions = [
            ReportedPartition(
                topic.name,
                partition,
                moving.get(TopicPartition(topic.name, partition.partition)),
                min_isr,
                live,
            )
            for partition in topic.partitions
        ]
        if chosen is not None:
            partitions = [partition for partition in partitions if partition.matches(chosen)]
        reported.append((topic, overrides, partitions))
    if options["as_json"]:
        click.echo(
            json.dumps([_as_json(*entry) for entry in reported if entry[2] or chosen is None], indent=2)
        )
    elif prints_as_kafka():
        for topic, overrides, partitions in reported:
            if chosen is None:
                click.echo(topic_line(topic.name, topic.topic_id, partitions, overrides))
            for partition in [] if options["topics_with_overrides"] else partitions:
                click.echo(partition_line(partition))
    elif chosen is not None:
        _show_partitions([partition for _, _, partitions in reported for partition in partitions])
    else:
        _show_topics(reported, with_partitions=not options["topics_with_overrides"])


async def _configs(admin: "Admin", names: Sequence[str]) -> dict[str, "list[ConfigValue]"]:
    from ottla.client.admin import ConfigResource, ResourceKind

    if not names:
        return {}
    described = await admin.describe_configs([ConfigResource(ResourceKind.TOPIC, name) for name in names])
    return {resource.name: values for resource, values in described.items()}


def _own(value: "ConfigValue") -> bool:
    from ottla.client.admin import ConfigSource

    return value.source is ConfigSource.DYNAMIC_TOPIC_CONFIG


def _beyond_defaults(value: "ConfigValue") -> bool:
    from ottla.client.admin import ConfigSource

    return value.source is not ConfigSource.DEFAULT_CONFIG


async def _reassignments(admin: "Admin") -> dict[TopicPartition, "Reassignment"]:
    from ottla.client.errors import ClientError, UnsupportedByBroker
    from wire.errors import Error

    try:
        return await admin.list_reassignments()
    except UnsupportedByBroker:
        return {}
    except ClientError as error:
        # Who may see topics need not be allowed to see the cluster.
        if error.error is not Error.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _as_json(
    topic: "TopicDescription", overrides: Mapping[str, str | None], partitions: Sequence[ReportedPartition]
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": topic_id_text(topic.topic_id),
        "internal": topic.internal,
        "configs": dict(overrides),
        "partitions": [partition.as_json() for partition in partitions],
    }


def _show_topics(
    reported: Sequence[tuple["TopicDescription", Mapping[str, str | None], Sequence[ReportedPartition]]],
    *,
    with_partitions: bool,
) -> None:
    console = open_console()
    for index, (topic, overrides, partitions) in enumerate(reported):
        factor = factor_text([partition.replication_factor for partition in partitions])
        line = (
            f"[bold]{topic.name}[/bold]  id {topic_id_text(topic.topic_id)}  "
            f"partitions {len(topic.partitions)}  replication factor {factor}"
        )
        if overrides:
            line += "  " + ",".join(f"{name}={value}" for name, value in sorted(overrides.items()))
        console.print(line)
        if with_partitions:
            _show_partitions(partitions, named=False)
            if index + 1 < len(reported):
                console.print()


def factor_text(factors: Sequence[int]) -> str:
    """Write the replication factors of a topic's partitions: one number, or from the least to the most."""
    if not factors:
        return "0"
    least, most = min(factors), max(factors)
    return str(least) if least == most else f"{least} to {most}"


def _show_partitions(partitions: Sequence[ReportedPartition], *, named: bool = True) -> None:
    moving = any(partition.reassignment is not None for partition in partitions)
    table = new_table(
        *(["Topic"] if named else []),
        *("Partition", "Leader", "Replicas", "ISR", "Offline"),
        *(["Adding", "Removing"] if moving else []),
    )
    for partition in partitions:
        described = partition.described
        leader = str(described.leader) if described.leader >= 0 else "[red]none[/red]"
        isr = numbers(described.isr)
        row = [
            str(described.partition),
            leader,
            numbers(described.replicas),
            isr if not partition.matches("under_replicated_partitions") else f"[yellow]{isr}[/yellow]",
            numbers(described.offline),
        ]
        if moving:
            reassignment = partition.reassignment
            row += (
                [numbers(reassignment.adding), numbers(reassignment.removing)] if reassignment else ["-", "-"]
            )
        table.add_row(*([partition.topic] if named else []), *row)
    if partitions:
        open_console().print(table)
