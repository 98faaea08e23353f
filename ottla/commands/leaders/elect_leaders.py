"""``ottla elect-leaders``: kafka-leader-election's flags; says what changed, and why the rest did not."""

from pathlib import Path

import click

from ottla.commands.leaders.election import run_election
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.json_input import read_partitions
from wire.types import TopicPartition


@click.command("elect-leaders")
@cluster_options
@click.option(
    "--election-type",
    required=True,
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: the first replica of each; unclean: any that lives, where none in sync does. May lose data.",
)
@click.option("--all-topic-partitions", is_flag=True, help="Of every partition.")
@click.option("--topic", help="Of a topic, with --partition of that one.")
@click.option("--partition", type=click.IntRange(min=0), help="Of one partition of the topic.")
@click.option(
    "--path-to-json-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help='{"partitions": [{"topic": "a", "partition": 0}]}',
)
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    election_type: str,
    all_topic_partitions: bool,
    topic: str | None,
    partition: int | None,
    path_to_json_file: Path | None,
) -> None:
    """Elect leaders of partitions: the preferred ones, or unclean ones."""
    if [all_topic_partitions, topic is not None, path_to_json_file is not None].count(True) != 1:
        raise click.UsageError(
            "exactly one of --all-topic-partitions, --topic and --path-to-json-file is needed"
        )
    if partition is not None and topic is None:
        raise click.UsageError("--partition goes with --topic")
    chosen: list[TopicPartition] | str | None = None
    if path_to_json_file is not None:
        chosen = [each for each, _ in read_partitions(path_to_json_file)]
    elif topic is not None:
        chosen = topic if partition is None else [TopicPartition(topic, partition)]
    succeeded = with_admin(
        "elect-leaders",
        bootstrap_server,
        timeout_s,
        command_config,
        lambda admin: run_election(admin, election_type, chosen, as_json=as_json),
    )
    if not succeeded:
        raise click.exceptions.Exit(1)
