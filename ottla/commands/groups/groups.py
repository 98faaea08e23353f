"""``ottla groups``: kafka-consumer-groups' flags, against a cluster's public protocol."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.groups.choice import chosen_groups, chosen_partitions, still_active
from ottla.commands.groups.offset_resets import WAYS, is_given, parse_reset
from ottla.commands.groups.reset_execution import reset_offsets
from ottla.commands.groups.zookeeper_groups import (
    ZooKeeperGroups,
    grouped_in_zookeeper,
    with_zookeeper_groups,
)
from ottla.commands.terminal.connecting import common_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.commands.terminal.zookeeper import zookeeper_config_option
from security.zookeeper_access import ZooKeeperAccess

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_ACTIONS: Final = ("list", "describe", "delete", "delete_offsets", "reset_offsets", "migrate_offsets")
_EMPTY: Final = "Empty"
_DEAD: Final = "Dead"
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", _EMPTY, _DEAD)
_STATES_OF_OTHERS: Final = ("Assigning", "Reconciling", "NotReady")
_TYPES: Final = ("classic", "consumer", "share")
_FOR_RESETS: Final = (*WAYS, "dry_run", "execute", "export", "all_topics")

# Which actions each option goes with, as kafka-consumer-groups has it; the others go with any.
_GOES_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "group": ("describe", "delete", "delete_offsets", "reset_offsets", "migrate_offsets"),
    "all_groups": ("describe", "delete", "reset_offsets", "migrate_offsets"),
    "topic": ("delete_offsets", "reset_offsets"),
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("list", "describe"),
    "type_": ("list",),
    **dict.fromkeys(_FOR_RESETS, ("reset_offsets",)),
    **dict.fromkeys(("dry_run", "execute"), ("reset_offsets", "migrate_offsets")),
}


@click.command("groups")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to.")
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[/CHROOT]",
    help="Groups of old consumers, which are in ZooKeeper; brokers are found there.",
)
@zookeeper_config_option("-zk-tls-config-file")
@common_options
@click.option("--list", "list_", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Show offsets and lag, --members or --state of groups.")
@click.option("--delete", is_flag=True, help="Delete groups that have no members.")
@click.option("--delete-offsets", is_flag=True, help="Delete a group's offsets of topics.")
@click.option("--reset-offsets", is_flag=True, help="Set the offsets of groups that have no members.")
@click.option(
    "--migrate-offsets", is_flag=True, help="Commit to Kafka where groups in --zookeeper are; see --execute."
)
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
    bootstrap_server: str | None,
    zookeeper: str | None,
    access: ZooKeeperAccess,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List, describe and delete groups; delete and reset their offsets, and move them from ZooKeeper to Kafka."""
    options["list"] = options.pop("list_")
    options["as_json"] = as_json
    if bootstrap_server is None and zookeeper is None:
        raise click.UsageError(
            "Missing option '--bootstrap-server', or '--zookeeper' for groups of old consumers."
        )
    action = _action(options)
    if zookeeper is None:
        if action == "migrate_offsets":
            raise click.UsageError("--migrate-offsets needs --zookeeper")
        is_done = with_admin(
            "groups",
            bootstrap_server or "",
            timeout_s,
            command_config,
            lambda admin: _RUN[action](admin, options),
        )
    else:
        is_done = with_zookeeper_groups(
            zookeeper,
            access,
            bootstrap_server,
            timeout_s,
            command_config,
            partial(_in_zookeeper, action, options),
        )
    if not is_done:
        raise click.exceptions.Exit(1)


async def _in_zookeeper(
    action: str, options: Mapping[str, Any], admin: "Admin", groups: ZooKeeperGroups
) -> bool:
    grouped = grouped_in_zookeeper(admin, groups)
    if action != "migrate_offsets":
        if action == "describe" and options["state"] is not None and prints_as_kafka():
            raise CommandError("--state has no columns for groups in ZooKeeper, which have no coordinator")
        return await _RUN[action](grouped, options)
    from ottla.commands.groups.offset_migration import migrate_offsets

    chosen = await chosen_groups(grouped, options)
    return await migrate_offsets(
        admin, groups, chosen, execute=options["execute"], as_json=options["as_json"]
    )


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
    found = [await admin.describe_group(group_id) for group_id in await chosen_groups(admin, options)]
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

    outcomes = await admin.delete_groups(await chosen_groups(admin, options))
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
            click.echo(still_active(await admin.describe_group(group_id), "deleted"), err=True)
        elif error is not Error.NONE:
            click.echo(f"group {group_id!r} was not deleted: {error.text}", err=True)
    return len(deleted) == len(outcomes)


async def _delete_offsets(admin: "Admin", options: Mapping[str, Any]) -> bool:
    from ottla.commands.terminal.console import new_table, open_console
    from wire.errors import Error

    if len(options["group"]) != 1:
        raise CommandError("--delete-offsets takes one group")
    partitions = await chosen_partitions(admin, options["topic"])
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


_RUN: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "delete_offsets": _delete_offsets,
    "reset_offsets": reset_offsets,
}


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
