"""Electing leaders from the command line, and reporting the outcome."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ottla.client.admin import Election
from ottla.client.errors import ClientError
from ottla.commands.kafka_lines.brokers import election_lines
from ottla.commands.terminal.console import new_table, numbers, open_console
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.errors import Error
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, PartitionDescription
    from wire.types import BrokerId


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the election of one partition.

    Attributes:
        partition: Which one.
        before: As it was; None where it does not exist.
        after: As it is.
        error: Why it was not elected; None where it was.
    """

    partition: TopicPartition
    before: "PartitionDescription | None"
    after: "PartitionDescription | None"
    error: ClientError | None

    @property
    def is_as_wanted(self) -> bool:
        """Whether there is nothing left to do: elected, or no election was needed."""
        return self.error is None or self.error.error is Error.ELECTION_NOT_NEEDED

    def reason(self) -> str:
        """Say for people why the leader is not another one."""
        if self.error is None:
            return "elected"
        if self.error.error is Error.ELECTION_NOT_NEEDED:
            return "not needed"
        state = self.before
        if self.error.error is Error.PREFERRED_LEADER_NOT_AVAILABLE and state is not None and state.replicas:
            preferred = state.replicas[0]
            if preferred in state.offline:
                return f"preferred leader {preferred} is not alive"
            if preferred not in state.isr:
                return f"preferred leader {preferred} is not in sync"
        return str(self.error)


async def run_election(
    admin: "Admin", kind: str, chosen: Sequence[TopicPartition] | str | None, *, as_json: bool
) -> bool:
    """Elect, print the outcome, and return whether every partition now has the wanted leader.

    Args:
        admin: The cluster.
        kind: ``preferred`` or ``unclean``.
        chosen: Partitions, or the name of a topic, or None for every partition.
        as_json: Whether to print JSON.
    """
    before = await _states(admin)
    if isinstance(chosen, str):
        found = await admin.describe_topics([chosen])
        chosen = [TopicPartition(topic.name, each.partition) for topic in found for each in topic.partitions]
    errors = await admin.elect_leaders(Election[kind.upper()], chosen)
    after = await _states(admin, (await admin.refresh()).controller_id)
    outcomes = [
        Outcome(partition, before.get(partition), after.get(partition), error)
        for partition, error in sorted(errors.items())
    ]
    if prints_as_kafka():
        click.echo("\n".join(election_lines(kind.upper(), errors)))
    elif as_json:
        click.echo(json.dumps([_as_json(outcome) for outcome in outcomes], indent=2))
    else:
        _show(outcomes, unnamed=len(before) - len(outcomes) if chosen is None else 0)
    return all(outcome.is_as_wanted for outcome in outcomes)


async def _states(
    admin: "Admin", broker_id: "BrokerId | None" = None
) -> Mapping[TopicPartition, "PartitionDescription"]:
    return {
        TopicPartition(topic.name, partition.partition): partition
        for topic in await admin.describe_topics(None, broker_id=broker_id)
        for partition in topic.partitions
    }


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        "elected": outcome.error is None,
        "leader_before": None if outcome.before is None else outcome.before.leader,
        "leader": None if outcome.after is None else outcome.after.leader,
        "error": None if outcome.error is None or outcome.error.error is None else outcome.error.error.name,
        "reason": outcome.reason(),
    }


def _show(outcomes: Sequence[Outcome], *, unnamed: int) -> None:
    console = open_console()
    shown = [each for each in outcomes if each.error is None or not each.is_as_wanted]
    if shown:
        table = new_table("Topic", "Partition", "Leader", "Replicas", "ISR", "Outcome")
        for outcome in shown:
            before, after = outcome.before, outcome.after
            leaders = [str(each.leader) if each.leader >= 0 else "none" for each in (before, after) if each]
            reason = outcome.reason()
            table.add_row(
                outcome.partition.topic,
                str(outcome.partition.partition),
                " → ".join(dict.fromkeys(leaders)) or "-",
                numbers(after.replicas) if after else "-",
                numbers(after.isr) if after else "-",
                f"[green]{reason}[/green]" if outcome.error is None else f"[yellow]{reason}[/yellow]",
            )
        console.print(table)
    needless = len(outcomes) - len(shown) + unnamed
    if needless:
        console.print(f"{needless} partition{'s' if needless > 1 else ''}: no election was needed")
