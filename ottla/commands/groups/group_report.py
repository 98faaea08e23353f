"""Groups as tables and as JSON: offsets with their lag, members, states."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.groups.positions import PositionRow, positions
from ottla.commands.kafka_lines import groups as kafka_lines
from ottla.commands.terminal.console import new_table, open_console
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, GroupDescription, GroupMember

_NONE: Final = "-"


async def print_as_kafka(
    admin: "Admin", groups: Sequence["GroupDescription"], options: Mapping[str, Any]
) -> None:
    """Print what kafka-consumer-groups prints of each group: its offsets, members or state."""
    brokers = (await admin.refresh()).brokers if options["state"] is not None else {}
    for group in groups:
        noted, warned = kafka_lines.state_note(group)
        if warned is not None:
            click.echo(warned, err=True)
        lines: list[str] = [noted] if noted is not None else []
        if options["members"]:
            lines += kafka_lines.member_lines(group, verbose=options["verbose"])
        elif group.state == "Dead":
            pass
        elif options["state"] is not None:
            lines += kafka_lines.state_lines(group, brokers[group.coordinator])
        else:
            committed = await admin.committed_offsets(group.group_id)
            lines += kafka_lines.position_lines(await positions(admin, group, committed))
        if lines:
            click.echo("\n".join(lines))


def print_positions(rows: Sequence[PositionRow], *, verbose: bool, as_json: bool) -> None:
    """Print partitions; ``verbose`` adds leader epochs and what was committed with the offsets."""
    if as_json:
        click.echo(json.dumps([_position_json(row) for row in rows]))
        return
    if not rows:
        return
    more = ("Epoch", "Metadata") if verbose else ()
    table = new_table(
        "Group", "Topic", "Partition", "Current", "End", "Lag", *more, "Consumer id", "Host", "Client id"
    )
    for row in rows:
        member = row.member
        table.add_row(
            row.group,
            row.topic,
            str(row.partition),
            _text(row.current_offset),
            _text(row.log_end_offset),
            _text(row.lag),
            *((_text(row.leader_epoch), row.metadata or _NONE) if verbose else ()),
            _NONE if member is None else member.member_id,
            _NONE if member is None else member.host,
            _NONE if member is None else member.client_id,
        )
    open_console().print(table)


def print_members(groups: Sequence["GroupDescription"], *, verbose: bool, as_json: bool) -> None:
    """Print members; ``verbose`` adds what each is assigned."""
    if as_json:
        click.echo(json.dumps([_member_json(group, each) for group in groups for each in group.members]))
        return
    if not any(group.members for group in groups):
        return
    is_static = any(each.instance_id is not None for group in groups for each in group.members)
    table = new_table(
        "Group",
        "Consumer id",
        *(("Instance id",) if is_static else ()),
        "Host",
        "Client id",
        "Partitions",
        *(("Assignment",) if verbose else ()),
    )
    for group in groups:
        for each in group.members:
            table.add_row(
                group.group_id,
                each.member_id,
                *((each.instance_id or _NONE,) if is_static else ()),
                each.host,
                each.client_id,
                str(len(each.assignment)),
                *((assignment_text(each.assignment),) if verbose else ()),
            )
    open_console().print(table)


def print_states(groups: Sequence["GroupDescription"], *, as_json: bool) -> None:
    """Print each group's coordinator, strategy, state and size."""
    if as_json:
        click.echo(
            json.dumps(
                [
                    {
                        "group": group.group_id,
                        "coordinator": group.coordinator if group.coordinator >= 0 else None,
                        "assignment_strategy": group.protocol,
                        "state": group.state,
                        "members": len(group.members),
                    }
                    for group in groups
                ]
            )
        )
        return
    if not groups:
        return
    table = new_table("Group", "Coordinator", "Strategy", "State", "Members")
    for group in groups:
        table.add_row(
            group.group_id,
            str(group.coordinator) if group.coordinator >= 0 else _NONE,
            group.protocol or _NONE,
            group.state,
            str(len(group.members)),
        )
    open_console().print(table)


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """Write partitions as kafka-consumer-groups does: ``orders(0,1), paid(2)``."""
    topics: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(f"{topic}({','.join(numbers)})" for topic, numbers in topics.items()) or _NONE


def _position_json(row: PositionRow) -> dict[str, Any]:
    member = row.member
    return {
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "current_offset": row.current_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "leader_epoch": row.leader_epoch,
        "metadata": row.metadata,
        "consumer_id": None if member is None else member.member_id,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
    }


def _member_json(group: "GroupDescription", member: "GroupMember") -> dict[str, Any]:
    return {
        "group": group.group_id,
        "consumer_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "assignment": [{"topic": each.topic, "partition": each.partition} for each in member.assignment],
    }


def _text(number: int | None) -> str:
    return _NONE if number is None else str(number)
