"""``ottla get-offsets``: kafka-get-offsets' flags."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
_ALL_TOPICS: Final = ".*"


class PartitionRule(NamedTuple):
    """Partitions of topics: those with ``first <= partition < end`` of every topic that the expression fits."""

    topic: str
    first: int
    end: int | None

    def takes(self, partition: TopicPartition) -> bool:
        """Whether it takes a partition."""
        in_range = self.first <= partition.partition and (self.end is None or partition.partition < self.end)
        return in_range and re.fullmatch(self.topic, partition.topic) is not None


@click.command("get-offsets")
@cluster_options
@click.option("--topic-partitions", metavar="TOPIC:0-3,...", help="Topics with ranges of partitions.")
@click.option("--topic", help="Topics, as a regular expression.")
@click.option("--partitions", metavar="0,1,...", help="Partitions of the topics.")
@click.option(
    "--time",
    default="latest",
    show_default=True,
    help="A time in ms, or earliest, latest, max-timestamp, earliest-local, latest-tiered (or -2 to -5, -1).",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave out the cluster's own topics.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    time: str,
    **options: Any,
) -> None:
    """Look up the offsets of partitions: their ends, their starts, or by time."""
    if options["topic_partitions"] and (options["topic"] or options["partitions"]):
        raise click.UsageError("--topic-partitions does not go with --topic and --partitions")
    rules = (
        parse_rules(options["topic_partitions"])
        if options["topic_partitions"]
        else _rules(options["topic"], options["partitions"])
    )
    when = parse_time(time)

    async def body(admin: "Admin") -> bool:
        return await _show(
            admin, rules, when, internal=not options["exclude_internal_topics"], as_json=as_json
        )

    complete = with_admin("get-offsets", bootstrap_server, timeout_s, command_config, body)
    if not complete:
        raise click.exceptions.Exit(1)


def parse_time(text: str) -> int:
    """Read what ``--time`` says.

    Raises:
        CommandError: it is neither a name nor a number.
    """
    try:
        return _TIMES[text] if text in _TIMES else int(text)
    except ValueError:
        raise CommandError(f"--time {text!r} is none of {', '.join(_TIMES)}, and no time in ms") from None


def parse_rules(text: str) -> list[PartitionRule]:
    """Read ``topic:partition``, ``topic:first-end``, ``topic:-end``, ``topic:first-`` or ``topic``, by commas.

    A range does not include its end, as Kafka has it; without a topic every topic is meant.

    Raises:
        CommandError: an entry is written otherwise.
    """
    rules = []
    for entry in text.split(","):
        topic, colon, numbers = entry.strip().rpartition(":")
        if not colon:
            topic, numbers = numbers, ""
        match = re.fullmatch(r"(\d*)(-?)(\d*)", numbers)
        if match is None or (match[3] and not match[2]):
            raise CommandError(f"--topic-partitions {entry!r} is not TOPIC:PARTITION or TOPIC:FIRST-END")
        first = int(match[1] or 0)
        end = int(match[3]) if match[3] else None
        if match[1] and not match[2]:
            end = first + 1
        rules.append(PartitionRule(_expression(topic or _ALL_TOPICS), first, end))
    return rules


def _rules(topic: str | None, partitions: str | None) -> list[PartitionRule]:
    expression = _expression(topic or _ALL_TOPICS)
    if partitions is None:
        return [PartitionRule(expression, 0, None)]
    try:
        numbers = [int(part) for part in partitions.split(",") if part.strip()]
    except ValueError:
        raise CommandError(f"--partitions {partitions!r} is not 0,1,2") from None
    return [PartitionRule(expression, number, number + 1) for number in numbers]


def _expression(topic: str) -> str:
    try:
        re.compile(topic)
    except re.error as error:
        raise CommandError(f"{topic!r} is no regular expression: {error}") from None
    return topic


async def _show(
    admin: "Admin", rules: Sequence[PartitionRule], when: int, *, internal: bool, as_json: bool
) -> bool:
    from ottla.client.admin import FoundOffset
    from ottla.commands.kafka_lines.topics import offset_lines, skipped_offset_line
    from ottla.commands.terminal.console import new_table, open_console

    chosen = [
        partition
        for topic in await admin.describe_topics(None)
        if internal or not topic.internal
        for partition in (TopicPartition(topic.name, each.partition) for each in topic.partitions)
        if any(rule.takes(partition) for rule in rules)
    ]
    if not chosen:
        raise CommandError("no partition fits")
    found = await admin.list_offsets(dict.fromkeys(chosen, when))
    offsets = {key: value for key, value in found.items() if isinstance(value, FoundOffset)}
    as_kafka = prints_as_kafka()
    for partition in sorted(found.keys() - offsets.keys()):
        why = found[partition]
        click.echo(skipped_offset_line(partition, why) if as_kafka else f"{partition}: {why}", err=True)
    if as_kafka:
        for line in offset_lines({key: value.offset for key, value in offsets.items()}):
            click.echo(line)
    elif as_json:
        click.echo(
            json.dumps(
                [
                    {"topic": each.topic, "partition": each.partition, "offset": offsets[each].offset}
                    for each in sorted(offsets)
                    if offsets[each].offset >= 0
                ]
            )
        )
    elif offsets:
        table = new_table("Topic", "Partition", "Offset")
        for each in sorted(offsets):
            offset = offsets[each].offset
            table.add_row(each.topic, str(each.partition), str(offset) if offset >= 0 else "-")
        open_console().print(table)
    return len(offsets) == len(found)
