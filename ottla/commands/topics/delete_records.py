"""``ottla delete-records``: kafka-delete-records' flags."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.client.errors import ClientError
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.json_input import read_partitions
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin


@click.command("delete-records")
@cluster_options
@click.option(
    "--offset-json-file",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help='{"partitions": [{"topic": "a", "partition": 0, "offset": 100}]}: delete below; -1 means all.',
)
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    offset_json_file: Path,
) -> None:
    """Delete the first records of partitions, on every replica, and for good."""
    before = read_offsets(offset_json_file)

    async def body(admin: "Admin") -> Mapping[TopicPartition, Offset | ClientError]:
        return await admin.delete_records(before)

    results = with_admin("delete-records", bootstrap_server, timeout_s, command_config, body)
    _show(results, as_json=as_json)
    if any(isinstance(result, ClientError) for result in results.values()):
        raise click.exceptions.Exit(1)


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """Read where each partition shall start.

    Raises:
        CommandError: the file is not of this form, or an offset is none.
    """
    before = {}
    for partition, entry in read_partitions(path, "offset"):
        offset = entry["offset"]
        if not isinstance(offset, int) or offset < -1:
            raise CommandError(f"{path}: {offset!r} of {partition} is no offset")
        before[partition] = Offset(offset)
    return before


def _show(results: Mapping[TopicPartition, Offset | ClientError], *, as_json: bool) -> None:
    from ottla.commands.kafka_lines.topics import deletion_lines
    from ottla.commands.terminal.console import new_table, open_console

    if prints_as_kafka():
        click.echo("\n".join(deletion_lines(results)))
        return
    if as_json:
        click.echo(
            json.dumps(
                [
                    {"topic": each.topic, "partition": each.partition}
                    | (
                        {"error": str(result)}
                        if isinstance(result, ClientError)
                        else {"low_watermark": result}
                    )
                    for each, result in sorted(results.items())
                ]
            )
        )
        return
    table = new_table("Topic", "Partition", "Starts at")
    for each, result in sorted(results.items()):
        text = f"[red]{result}[/red]" if isinstance(result, ClientError) else str(result)
        table.add_row(each.topic, str(each.partition), text)
    open_console().print(table)
