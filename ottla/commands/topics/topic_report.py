"""What ``ottla topics --describe`` shows: which partitions, and how."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.console import new_table, numbers, open_console
from wire.types import BrokerId, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from ottla.admin import Admin, PartitionDescription, Reassignment, TopicDescription

_MIN_ISR: Final = "min.insync.replicas"
_FILTERS: Final = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)

Configs = Mapping[str, tuple[str | None, bool]]


@dataclass(frozen=True, slots=True)
class ReportedPartition:
    """A partition with what its state is judged by."""

    topic: str
    described: "PartitionDescription"
    reassignment: "Reassignment | None"
    min_isr: int
    live_brokers: frozenset[BrokerId]

    @property
    def replication_factor(self) -> int:
        """How many replicas it is meant to have; while it moves, those it moves to."""
        if self.reassignment is None:
            return len(self.described.replicas)
        return len(self.reassignment.replicas) - len(self.reassignment.adding)

    def matches(self, name: str) -> bool:
        """Whether one of kafka-topics' choices of partitions takes this one."""
        isr = len(self.described.isr)
        has_leader = self.described.leader >= 0
        match name:
            case "under_replicated_partitions":
                return self.replication_factor > isr
            case "unavailable_partitions":
                return not has_leader or self.described.leader not in self.live_brokers
            case "under_min_isr_partitions":
                return not has_leader or isr < self.min_isr
            case "at_min_isr_partitions":
                return isr == self.min_isr
        raise ValueError(name)

    def as_json(self) -> dict[str, object]:
        """Return it for programs; a leader that is none is null."""
        data: dict[str, object] = {
            "partition": self.described.partition,
            "leader": self.described.leader if self.described.leader >= 0 else None,
            "leader_epoch": self.described.leader_epoch,
            "replicas": list(self.described.replicas),
            "isr": list(self.described.isr),
            "offline_replicas": list(self.described.offline),
        }
        if self.reassignment is not None:
            data["adding_replicas"] = list(self.reassignment.adding)
            data["removing_replicas"] = list(self.reassignment.removing)
        return data


async def report(admin: "Admin", names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Describe topics on the terminal, or as JSON."""
    topics = await admin.describe_topics(names) if names else []
    configs = await admin.describe_topic_configs(names) if names else {}
    live = frozenset((await admin.refresh()).brokers)
    moving = await _reassignments(admin)
    chosen = next((name for name in _FILTERS if options[name]), None)
    reported = []
    for topic in topics:
        overrides = {name: value for name, (value, own) in configs[topic.name].items() if own}
        if options["topics_with_overrides"] and not overrides:
            continue
        min_isr = int(configs[topic.name].get(_MIN_ISR, ("1", False))[0] or 1)
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
    elif chosen is not None:
        _show_partitions([partition for _, _, partitions in reported for partition in partitions])
    else:
        _show_topics(reported, with_partitions=not options["topics_with_overrides"])


async def _reassignments(admin: "Admin") -> dict[TopicPartition, "Reassignment"]:
    from ottla.admin import ApiError, NoCommonVersionError
    from wire.errors import Error

    try:
        return await admin.list_reassignments()
    except NoCommonVersionError:
        return {}
    except ApiError as error:
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
        factor = partitions[0].replication_factor if partitions else 0
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
