"""``ottla groups``: kafka-consumer-groups' flags, against a cluster's public protocol."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.groups.offset_resets import (
    WAYS,
    PlannedOffset,
    Reset,
    is_given,
    parse_reset,
    plan,
    read_offsets_file,
    write_offsets,
)
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, GroupDescription

_ACTIONS: Final = ("list", "describe", "delete", "delete_offsets", "reset_offsets")
_EMPTY: Final = "Empty"
_DEAD: Final = "Dead"
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", _EMPTY, _DEAD)
_STATES_OF_OTHERS: Final = ("Assigning", "Reconciling", "NotReady")
_TYPES: Final = ("classic", "consumer", "share")
_FOR_RESETS: Final = (*WAYS, "dry_run", "execute", "export", "all_topics")

# Which actions each option goes with, as kafka-consumer-groups has it; the others go with any.
_GOES_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "group": ("describe", "delete", "delete_offsets", "reset_offsets"),
    "all_groups": ("describe", "delete", "reset_offsets"),
    "topic": ("delete_offsets", "reset_offsets"),
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("list", "describe"),
    "type_": ("list",),
    **dict.fromkeys(_FOR_RESETS, ("reset_offsets",)),
}


@click.command("groups")
@cluster_options
@click.option("--list", "list_", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Show offsets and lag, --members or --state of groups.")
@click.option("--delete", is_flag=True, help="Delete groups that have no members.")
@click.option("--delete-offsets", is_flag=True, help="Delete a group's offsets of topics.")
@click.option("--reset-offsets", is_flag=True, help="Set the offsets of groups that have no members.")
@click.option("--group", multiple=True, help="The group; repeatable.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--topic", multiple=True, metavar="TOPIC[:0,1,...]", help="The topic; repeatable.")
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets of.")
@click.option("--offsets", is_flag=True, help="Describe offsets and lag: the default.")
@click.option("--members", is_flag=True, help="Describe members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="Describe states; with --list, show them, or only groups in these.",
)
@click.option(
    "--type", "type_", is_flag=False, flag_value="", metavar="[TYPE,...]", help="List types, or only these."
)
@click.option("--verbose", is_flag=True, help="Describe with assignments, epochs and metadata.")
@click.option("--to-earliest", is_flag=True, help="Reset to the start of the log.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option(
    "--to-current", is_flag=True, help="Reset to where the group is; to the end where it never was."
)
@click.option("--to-offset", type=click.IntRange(min=0), help="Reset to an offset.")
@click.option("--to-datetime", metavar="YYYY-MM-DDTHH:MM:SS.sss", help="Reset to a time, UTC's by default.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Reset to so long before now.")
@click.option("--shift-by", type=int, help="Shift by this number of records, forward or (negative) back.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Reset to what a file says that --export wrote.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be reset: the default.")
@click.option("--execute", is_flag=True, help="Do reset.")
@click.option("--export", is_flag=True, help="Print what would be reset as CSV, for --from-file.")
def command(
    bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool, **options: Any
) -> None:
    """List, describe and delete groups; delete and reset their offsets."""
    options["list"] = options.pop("list_")
    options["as_json"] = as_json
    action = _action(options)

    async def body(admin: "Admin") -> bool:
        return await _RUN[action](admin, options)

    if not with_admin("groups", bootstrap_server, timeout_s, command_config, body):
        raise click.exceptions.Exit(1)


def _action(options: Mapping[str, Any]) -> str:
    given = [action for action in _ACTIONS if options[action]]
    if len(given) != 1:
        names = ", ".join(f"--{action.replace('_', '-')}" for action in _ACTIONS)
        raise click.UsageError(f"exactly one of {names} is needed")
    (action,) = given
    for option, actions in _GOES_WITH.items():
        if is_given(options[option]) and action not in actions:
            name = option.strip("_").replace("_", "-")
            raise click.UsageError(f"--{name} does not go with --{action.replace('_', '-')}")
    if action != "list" and bool(options["group"]) == options["all_groups"]:
        raise click.UsageError(f"--{action.replace('_', '-')} needs --group, or --all-groups, and not both")
    if action == "describe" and options["offsets"] + options["members"] + (options["state"] is not None) > 1:
        raise click.UsageError("only one of --offsets, --members and --state can be described at a time")
    _check_names("state", options["state"], (*_STATES, *_STATES_OF_OTHERS))
    _check_names("type", options["type_"], _TYPES)
    if action == "delete_offsets" and not options["topic"]:
        raise click.UsageError("--delete-offsets needs --topic")
    if action == "reset_offsets":
        _check_reset(options)
    return action


def _check_names(option: str, text: str | None, known: Sequence[str]) -> None:
    """Refuse what no group can be, which would find none without a word."""
    for name in _names(text):
        if name.lower() not in {each.lower() for each in known}:
            raise click.UsageError(f"--{option} {name!r} is none of {', '.join(known)}")


def _check_reset(options: Mapping[str, Any]) -> None:
    if options["dry_run"] + options["execute"] + options["export"] > 1 and not (
        options["dry_run"] and options["export"]
    ):
        raise click.UsageError("--execute does not go with --dry-run and --export")
    parse_reset(options)
    scopes = bool(options["topic"]) + options["all_topics"] + (options["from_file"] is not None)
    if scopes != 1:
        raise click.UsageError("--reset-offsets needs one of --topic, --all-topics and --from-file")


async def _list(admin: "Admin", options: Mapping[str, Any]) -> bool:
    from ottla.commands.terminal.console import new_table, open_console

    groups = await admin.list_groups(_names(options["state"]), _names(options["type_"]))
    shows_more = options["state"] is not None or options["type_"] is not None
    if prints_as_kafka() and shows_more:
        from ottla.commands.kafka_lines.groups import listing_lines

        types, states = options["type_"] is not None, options["state"] is not None
        click.echo("\n".join(listing_lines(groups, types=types, states=states)))
    elif options["as_json"]:
        click.echo(
            json.dumps(
                [{"group": g.group_id, "state": g.state, "type": g.group_type or "classic"} for g in groups]
                if shows_more
                else [group.group_id for group in groups]
            )
        )
    elif shows_more and groups:
        table = new_table("Group", "Type", "State")
        for group in groups:
            table.add_row(group.group_id, group.group_type or "classic", group.state)
        open_console().print(table)
    elif groups:
        click.echo("\n".join(group.group_id for group in groups))
    return True


async def _describe(admin: "Admin", options: Mapping[str, Any]) -> bool:
    from ottla.commands.groups import group_report
    from ottla.commands.groups.positions import positions

    as_json, verbose = options["as_json"], options["verbose"]
    found = [await admin.describe_group(group_id) for group_id in await _chosen(admin, options)]
    if prints_as_kafka():
        await group_report.print_as_kafka(admin, sorted(found, key=lambda each: each.group_id), options)
        return all(group.state != _DEAD for group in found)
    groups = []
    for group in found:
        if group.state == _DEAD:
            click.echo(f"group {group.group_id!r} does not exist", err=True)
            continue
        groups.append(group)
        if not group.members and not as_json:
            click.echo(f"group {group.group_id!r} has no active members", err=True)
    if options["members"]:
        group_report.print_members(groups, verbose=verbose, as_json=as_json)
    elif options["state"] is not None:
        wanted = {name.lower() for name in _names(options["state"])}
        shown = [group for group in groups if not wanted or group.state.lower() in wanted]
        group_report.print_states(shown, as_json=as_json)
    else:
        rows = []
        for group in groups:
            committed = await admin.committed_offsets(group.group_id)
            rows.extend(await positions(admin, group, committed))
        group_report.print_positions(rows, verbose=verbose, as_json=as_json)
    return len(groups) == len(found)


async def _delete(admin: "Admin", options: Mapping[str, Any]) -> bool:
    from wire.errors import Error

    outcomes = await admin.delete_groups(await _chosen(admin, options))
    deleted = [group_id for group_id, error in outcomes.items() if error is Error.NONE]
    if prints_as_kafka():
        from ottla.commands.kafka_lines.groups import deletion_lines

        click.echo("\n".join(deletion_lines(outcomes)))
        return len(deleted) == len(outcomes)
    if options["as_json"]:
        click.echo(json.dumps({"deleted": deleted}))
    elif deleted:
        click.echo("\n".join(f"Deleted group {group_id}." for group_id in deleted))
    for group_id, error in outcomes.items():
        if error is Error.NON_EMPTY_GROUP:
            click.echo(_still_active(await admin.describe_group(group_id), "deleted"), err=True)
        elif error is not Error.NONE:
            click.echo(f"group {group_id!r} was not deleted: {error.text}", err=True)
    return len(deleted) == len(outcomes)


async def _delete_offsets(admin: "Admin", options: Mapping[str, Any]) -> bool:
    from ottla.commands.terminal.console import new_table, open_console
    from wire.errors import Error

    if len(options["group"]) != 1:
        raise CommandError("--delete-offsets takes one group")
    partitions = await _partitions(admin, options["topic"])
    outcomes = await admin.delete_offsets(options["group"][0], partitions)
    if prints_as_kafka():
        from ottla.commands.kafka_lines.groups import offset_deletion_lines

        click.echo("\n".join(offset_deletion_lines(options["group"][0], options["topic"], outcomes)))
    elif options["as_json"]:
        click.echo(
            json.dumps(
                [
                    {"topic": each.topic, "partition": each.partition, "error": error.name}
                    for each, error in sorted(outcomes.items())
                ]
            )
        )
    else:
        table = new_table("Topic", "Partition", "Outcome")
        for each, error in sorted(outcomes.items()):
            outcome = "deleted" if error is Error.NONE else error.text
            table.add_row(each.topic, str(each.partition), outcome)
        open_console().print(table)
    return all(error is Error.NONE for error in outcomes.values())


async def _reset_offsets(admin: "Admin", options: Mapping[str, Any]) -> bool:
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
    from datetime import UTC, datetime

    group_ids = await _chosen(admin, options)
    files = read_offsets_file(reset.value, group_ids) if reset.way == "from_file" else {}
    named = None if not options["topic"] else await _partitions(admin, options["topic"])
    plans: dict[str, dict[TopicPartition, PlannedOffset]] = {}
    is_whole = True
    for group_id in group_ids:
        group = await admin.describe_group(group_id)
        if group.state not in (_EMPTY, _DEAD):
            click.echo(_still_active(group, "reset"), err=True)
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


_RUN: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "reset_offsets": _reset_offsets,
}


async def _chosen(admin: "Admin", options: Mapping[str, Any]) -> list[str]:
    if options["all_groups"]:
        return [group.group_id for group in await admin.list_groups()]
    return list(dict.fromkeys(options["group"]))


async def _partitions(admin: "Admin", topics: Sequence[str]) -> list[TopicPartition]:
    """Read ``topic`` and ``topic:0,1``.

    Raises:
        CommandError: a list of partitions is written otherwise.
        ClientError: there is no such topic.
    """
    chosen: dict[TopicPartition, None] = {}
    for entry in topics:
        name, colon, numbers = entry.partition(":")
        if colon:
            try:
                chosen.update(dict.fromkeys(TopicPartition(name, int(each)) for each in numbers.split(",")))
            except ValueError:
                raise CommandError(f"--topic {entry!r} is not TOPIC or TOPIC:0,1,...") from None
            continue
        (topic,) = await admin.describe_topics([name])
        chosen.update(dict.fromkeys(TopicPartition(name, each.partition) for each in topic.partitions))
    return list(chosen)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _still_active(group: "GroupDescription", what: str) -> str:
    members = "".join(f"\n  {each.member_id} ({each.client_id}, {each.host})" for each in group.members)
    named = "member" if len(group.members) == 1 else f"{len(group.members)} members"
    return f"group {group.group_id!r} is not {what}: it is active ({group.state}); stop its {named} first:{members}"
