"""``ottla groups --migrate-offsets``: a group's offsets from ZooKeeper to Kafka, for the consumers that come after."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.groups.zookeeper_groups import ZooKeeperGroups
from wire.errors import Error
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.old_consumer.offsets import MigratedOffset

_INACTIVE = ("Empty", "Dead")


async def migrate_offsets(
    kafka: "Admin", zookeeper: ZooKeeperGroups, group_ids: Sequence[str], *, execute: bool, as_json: bool
) -> bool:
    """Commit to Kafka where groups are in ZooKeeper; return whether all of it was done, or could be.

    An offset that is farther in Kafka stays; those in ZooKeeper stay, for the way back.

    Args:
        kafka: Where offsets go.
        zookeeper: Where they come from.
        group_ids: Which groups.
        execute: Whether to commit.
        as_json: Whether to print JSON.
    """
    from ottla.client.admin import CommittedPosition
    from ottla.old_consumer.offsets import plan_migration

    plans: dict[str, dict[TopicPartition, MigratedOffset]] = {}
    failed: dict[tuple[str, TopicPartition], Error] = {}
    is_whole = True
    for group_id in group_ids:
        problem = await _problem(kafka, zookeeper, group_id)
        if problem is not None:
            click.echo(problem, err=True)
            is_whole = False
            continue
        there = {place: each.offset for place, each in (await kafka.committed_offsets(group_id)).items()}
        here = {place: each.offset for place, each in (await zookeeper.committed_offsets(group_id)).items()}
        planned = plans[group_id] = plan_migration(here, there)
        due = {place: CommittedPosition(each.after) for place, each in planned.items() if each.changes}
        if execute and due:
            for place, error in (await kafka.commit_offsets(group_id, due)).items():
                if error is not Error.NONE:
                    failed[group_id, place] = error
    _print(plans, failed, execute=execute, as_json=as_json)
    if plans and not execute and not as_json:
        click.echo("Nothing was changed: --execute migrates.", err=True)
    return is_whole and not failed


async def _problem(kafka: "Admin", zookeeper: ZooKeeperGroups, group_id: str) -> str | None:
    """Return why a group cannot be migrated now."""
    old = await zookeeper.describe_group(group_id)
    if old.state == "Dead":
        return f"group {group_id!r} does not exist in ZooKeeper"
    for where, group in (("ZooKeeper", old), ("Kafka", await kafka.describe_group(group_id))):
        if group.state not in _INACTIVE:
            members = "".join(f"\n  {each.member_id}" for each in group.members)
            return f"group {group_id!r} is not migrated: it is active in {where}; stop its members first:{members}"
    return None


def _print(
    plans: "Mapping[str, Mapping[TopicPartition, MigratedOffset]]",
    failed: Mapping[tuple[str, TopicPartition], Error],
    *,
    execute: bool,
    as_json: bool,
) -> None:
    rows = [(group, place, each) for group, planned in plans.items() for place, each in planned.items()]
    if as_json:
        described: list[dict[str, Any]] = [
            {
                "group": group,
                "topic": place.topic,
                "partition": place.partition,
                "zookeeper": each.zookeeper,
                "kafka": each.kafka,
                "after": each.after,
                "error": failed[group, place].name if (group, place) in failed else None,
            }
            for group, place, each in rows
        ]
        click.echo(json.dumps({"executed": execute, "offsets": described}))
        return
    if not rows:
        return
    from ottla.commands.terminal.console import new_table, open_console

    table = new_table("Group", "Topic", "Partition", "In ZooKeeper", "In Kafka", "After", "Outcome")
    for group, place, each in rows:
        error = failed.get((group, place))
        outcome = "as it is" if not each.changes else "migrated" if execute else "to be migrated"
        table.add_row(
            group,
            place.topic,
            str(place.partition),
            str(each.zookeeper),
            "-" if each.kafka is None else str(each.kafka),
            str(each.after),
            outcome if error is None else error.text,
        )
    open_console().print(table)
