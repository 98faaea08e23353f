"""``ottla log-dirs``: kafka-log-dirs' flags."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka

if TYPE_CHECKING:
    from ottla.client.admin import Admin, LogDirectory

_KIB = 1024


@click.command("log-dirs")
@cluster_options
@click.option("--describe", is_flag=True, required=True, help="Describe log directories; the only action.")
@click.option("--topic-list", metavar="TOPIC,...", help="Only these topics.")
@click.option("--broker-list", "broker_ids", metavar="ID,...", help="Only these brokers, by id.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    describe: bool,  # noqa: ARG001 - Kafka's flag, which is there to be given
    topic_list: str | None,
    broker_ids: str | None,
) -> None:
    """Show what the replicas on each broker's disks take, and how far they are behind."""
    chosen = parse_broker_ids(broker_ids)

    async def body(admin: "Admin") -> dict[int, "list[LogDirectory] | Exception"]:
        return await _ask(admin, chosen, topic_list)

    found = with_admin("log-dirs", bootstrap_server, timeout_s, command_config, body)
    if prints_as_kafka():
        _show_as_kafka(found)
    elif as_json:
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        _show(found)
    if any(isinstance(each, Exception) for each in found.values()):
        raise click.exceptions.Exit(1)


def parse_broker_ids(text: str | None) -> list[int] | None:
    """Read ``0,1,2``; None for no text.

    Raises:
        CommandError: it is written otherwise, or a broker stands twice.
    """
    if text is None:
        return None
    try:
        ids = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise CommandError(f"{text!r} is not a list of broker ids: 0,1,2") from None
    if len(set(ids)) < len(ids):
        raise CommandError(f"a broker stands twice in {text!r}")
    return ids


def size_text(size: int) -> str:
    """Write a number of bytes so that a person sees how much it is; a dash where it is unknown."""
    if size < 0:
        return "-"
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} TiB"


async def _ask(
    admin: "Admin", broker_ids: Sequence[int] | None, topic_list: str | None
) -> dict[int, "list[LogDirectory] | Exception"]:
    from ottla.client.errors import ClientError
    from wire.types import BrokerId

    live = sorted((await admin.refresh()).brokers)
    strangers = [broker_id for broker_id in broker_ids or () if broker_id not in live]
    if strangers and prints_as_kafka():
        from ottla.commands.kafka_lines.brokers import strangers_line

        click.echo(strangers_line(strangers, live), err=True)
        raise click.exceptions.Exit(1)
    topics: Mapping[str, Sequence[int]] | None = None
    if topic_list is not None:
        names = [name.strip() for name in topic_list.split(",") if name.strip()]
        topics = {
            topic.name: [partition.partition for partition in topic.partitions]
            for topic in await admin.describe_topics(names)
        }
    found: dict[int, list[LogDirectory] | Exception] = {}
    for broker_id in live if broker_ids is None else broker_ids:
        try:
            found[broker_id] = await admin.describe_log_dirs(BrokerId(broker_id), topics)
        except ClientError as error:
            found[broker_id] = error
    return found


def _as_json(found: Mapping[int, "list[LogDirectory] | Exception"]) -> dict[str, Any]:
    """Return Kafka's own form of it, with the sizes of the volumes added."""
    from ottla.commands.kafka_lines.brokers import replica_objects

    return {
        "version": 1,
        "brokers": [
            {"broker": broker_id, "error": str(described), "logDirs": []}
            if isinstance(described, Exception)
            else {
                "broker": broker_id,
                "logDirs": [
                    {
                        "logDir": directory.path,
                        "error": directory.error,
                        "totalBytes": directory.total_bytes,
                        "usableBytes": directory.usable_bytes,
                        "partitions": replica_objects(directory),
                    }
                    for directory in described
                ],
            }
            for broker_id, described in found.items()
        ],
    }


def _show_as_kafka(found: Mapping[int, "list[LogDirectory] | Exception"]) -> None:
    from ottla.commands.kafka_lines.brokers import log_dirs_lines

    for broker_id, described in found.items():
        if isinstance(described, Exception):
            raise CommandError(f"broker {broker_id}: {described}") from described
    click.echo(
        "\n".join(log_dirs_lines({key: each for key, each in found.items() if isinstance(each, list)}))
    )


def _show(found: Mapping[int, "list[LogDirectory] | Exception"]) -> None:
    from ottla.commands.terminal.console import new_table, open_console

    console = open_console()
    for index, (broker_id, described) in enumerate(found.items()):
        if index:
            console.print()
        if isinstance(described, Exception):
            console.print(f"[bold]broker {broker_id}[/bold]  [red]{described}[/red]")
            continue
        for directory in described:
            line = f"[bold]broker {broker_id}[/bold]  {directory.path}"
            if directory.error is not None:
                line += f"  [red]{directory.error}[/red]"
            total = sum(replica.size_bytes for replica in directory.replicas)
            line += f"  {len(directory.replicas)} replicas, {size_text(total)}"
            if directory.total_bytes >= 0:
                line += f"; {size_text(directory.usable_bytes)} of {size_text(directory.total_bytes)} free"
            console.print(line)
            table = new_table("Topic", "Partition", "Size", "Behind")
            for replica in sorted(directory.replicas, key=lambda each: (each.topic, each.partition)):
                table.add_row(
                    replica.topic,
                    str(replica.partition) + (" (future)" if replica.is_future else ""),
                    size_text(replica.size_bytes),
                    str(replica.offset_lag),
                )
            if directory.replicas:
                console.print(table)
