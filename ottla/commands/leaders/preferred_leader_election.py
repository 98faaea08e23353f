"""``ottla preferred-leader-election``: kafka-preferred-replica-election's flags, over the public protocol."""

from pathlib import Path

import click

from ottla.commands.leaders.election import run_election
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.json_input import read_partitions


@click.command("preferred-leader-election")
@cluster_options
@click.option(
    "--path-to-json-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help='{"partitions": [{"topic": "a", "partition": 0}]}; without it, every partition.',
)
@click.option("--topic", help="Only the partitions of this topic.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    path_to_json_file: Path | None,
    topic: str | None,
) -> None:
    """Return partitions to their preferred leader: the first of their replicas."""
    if path_to_json_file is not None and topic is not None:
        raise click.UsageError("--topic does not go with --path-to-json-file")
    chosen = topic
    partitions = (
        None if path_to_json_file is None else [each for each, _ in read_partitions(path_to_json_file)]
    )
    succeeded = with_admin(
        "preferred-leader-election",
        bootstrap_server,
        timeout_s,
        command_config,
        lambda admin: run_election(
            admin, "preferred", chosen if partitions is None else partitions, as_json=as_json
        ),
    )
    if not succeeded:
        raise click.exceptions.Exit(1)
