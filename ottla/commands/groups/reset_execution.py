"""``ottla groups --reset-offsets``: what it would do, and doing it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.groups.choice import chosen_groups, chosen_partitions, still_active
from ottla.commands.groups.offset_resets import (
    PlannedOffset,
    Reset,
    parse_reset,
    plan,
    read_offsets_file,
    write_offsets,
)
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_INACTIVE: Final = ("Empty", "Dead")


async def reset_offsets(admin: "Admin", options: Mapping[str, Any]) -> bool:
    """Reset what the options name, or show what would be reset; return whether all of it was, or could be."""
    from ottla.client.admin import CommittedPosition
    from wire.errors import Error

    reset = parse_reset(options)
    plans, is_whole = await _plans(admin, reset, options)
    if options["export"]:
        if plans:
            click.echo(write_offsets(plans))
        return is_whole
    failed: dict[tuple[str, TopicPartition], Error] = {}
    if options["execute"]:
        for group_id, planned in plans.items():
            positions = {partition: CommittedPosition(each.after) for partition, each in planned.items()}
            for partition, error in (await admin.commit_offsets(group_id, positions)).items():
                if error is not Error.NONE:
                    failed[group_id, partition] = error
    if prints_as_kafka() and not failed:
        from ottla.commands.kafka_lines.groups import reset_lines

        resets = {group: {at: each.after for at, each in planned.items()} for group, planned in plans.items()}
        click.echo("\n".join(reset_lines(resets)))
    else:
        _print_plans(plans, failed, options)
    if plans and not options["execute"] and not options["as_json"]:
        click.echo("Nothing was changed: --execute resets.", err=True)
    return is_whole and not failed


async def _plans(
    admin: "Admin", reset: Reset, options: Mapping[str, Any]
) -> tuple[dict[str, dict[TopicPartition, PlannedOffset]], bool]:
    """Find out what would be reset; groups that are active are named, and left out, which is the second value."""
    group_ids = await chosen_groups(admin, options)
    files = read_offsets_file(reset.value, group_ids) if reset.way == "from_file" else {}
    named = None if not options["topic"] else await chosen_partitions(admin, options["topic"])
    plans: dict[str, dict[TopicPartition, PlannedOffset]] = {}
    is_whole = True
    for group_id in group_ids:
        group = await admin.describe_group(group_id)
        if group.state not in _INACTIVE:
            click.echo(still_active(group, "reset"), err=True)
            is_whole = False
            continue
        committed = {at: each.offset for at, each in (await admin.committed_offsets(group_id)).items()}
        wanted = files.get(group_id, {})
        partitions = named if named is not None else list(wanted if files else committed)
        if not partitions:
            click.echo(f"there is nothing to reset for group {group_id!r}: name a --topic", err=True)
            # Of all groups some may have committed nothing.
            is_whole = is_whole and options["all_groups"]
            continue
        plans[group_id] = await plan(
            admin, reset, partitions, committed, wanted, lambda: datetime.now(tz=UTC)
        )
    return plans, is_whole


def _print_plans(
    plans: Mapping[str, Mapping[TopicPartition, PlannedOffset]],
    failed: Mapping[tuple[str, TopicPartition], Any],
    options: Mapping[str, Any],
) -> None:
    from ottla.commands.terminal.console import new_table, open_console

    rows = [(group, at, each) for group, planned in plans.items() for at, each in sorted(planned.items())]
    if options["as_json"]:
        described = [
            {
                "group": group,
                "topic": at.topic,
                "partition": at.partition,
                "before": each.before,
                "after": each.after,
                "error": failed[group, at].name if (group, at) in failed else None,
            }
            for group, at, each in rows
        ]
        click.echo(json.dumps({"executed": options["execute"], "offsets": described}))
        return
    if not rows:
        return
    table = new_table(
        "Group", "Topic", "Partition", "Before", "After", "Change", *(("Outcome",) if failed else ())
    )
    for group, at, each in rows:
        change = "-" if each.before is None else f"{each.after - each.before:+d}"
        before = "-" if each.before is None else str(each.before)
        error = failed.get((group, at))
        outcome = ("reset" if error is None else error.text,) if failed else ()
        table.add_row(group, at.topic, str(at.partition), before, str(each.after), change, *outcome)
    open_console().print(table)
