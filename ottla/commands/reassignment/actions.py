"""The actions of ``ottla reassign-partitions``. Each returns the exit code."""

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from ottla.client.admin import Admin, Election
from ottla.commands.kafka_lines import reassignments as lines
from ottla.commands.reassignment.directory_moves import RATE, MoveState, cancel_directories, places
from ottla.commands.reassignment.execution import execute
from ottla.commands.reassignment.plan_file import (
    as_object,
    as_text,
    read_directories,
    read_targets,
    read_topics_to_move,
)
from ottla.commands.reassignment.proposal import propose, racks_of, replicas_of
from ottla.commands.reassignment.report import directory_rows, show_directories, show_plan
from ottla.commands.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ottla.commands.terminal.console import new_table, numbers, open_console
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.placement import Replicas
from wire.types import BrokerId, TopicPartition

STILL_MOVING: Final = 2
FAILED: Final = 1

Options = Mapping[str, Any]


async def plan(admin: Admin, options: Options) -> int:
    """Propose the fewest moves that add, empty or even out brokers; carry them out where that is asked for."""
    found = await propose(
        admin,
        options["add_brokers"],
        options["remove_brokers"],
        rack_aware=not options["disable_rack_aware"],
    )
    made, before, sizes = found.plan, found.plan.before, found.sizes
    if options["output_json_file"] is not None:
        _write(options["output_json_file"], made.after)
    if not options["as_json"]:
        show_plan(made, sizes)
    elif not options["execute"] or options["dry_run"] or not made.after:
        click.echo(
            json.dumps(
                {
                    "plan": as_object(made.after),
                    "rollback": as_object({each: before[each] for each in made.after}),
                    "copies": made.copies,
                    "bytes": made.copied_bytes(sizes),
                },
                indent=2,
            )
        )
    if not options["execute"] or options["dry_run"] or not made.after:
        return 0
    code = await execute(admin, made.after, options)
    if not options["no_wait"]:
        # The plan has counted on the first replica of each to lead it.
        await admin.elect_leaders(Election.PREFERRED, made.after.keys())
    return code


async def generate(admin: Admin, options: Options) -> int:
    """Propose a new placement of topics, the way new topics are placed."""
    from cluster.statemachines.replica_assignment import BrokerRack, assign_replicas

    names = read_topics_to_move(options["topics_to_move_json_file"])
    topics = await admin.describe_topics(names)
    racks = await racks_of(admin, aware=not options["disable_rack_aware"])
    unknown = [broker for broker in options["broker_list"] if broker not in racks]
    if unknown:
        raise CommandError(f"not alive: broker {numbers(unknown)}")
    brokers = [BrokerRack(BrokerId(each), racks[BrokerId(each)]) for each in options["broker_list"]]
    if len({bool(each.rack) for each in brokers}) > 1:
        raise CommandError("not all brokers have a rack: add --disable-rack-aware to place without racks")
    random = Random()
    proposed: dict[TopicPartition, Replicas] = {}
    for topic in topics:
        factor = len(topic.partitions[0].replicas)
        placed = assign_replicas(
            brokers,
            len(topic.partitions),
            factor,
            start=random.randrange(len(brokers)),
            shift=random.randrange(len(brokers)),
        )
        proposed |= {TopicPartition(topic.name, index): replicas for index, replicas in placed.items()}
    if options["output_json_file"] is not None:
        _write(options["output_json_file"], proposed)
    current = replicas_of(topics)
    if options["as_json"]:
        click.echo(json.dumps({"current": as_object(current), "proposed": as_object(proposed)}, indent=2))
        return 0
    click.echo(f"Current partition replica assignment\n{as_text(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{as_text(proposed)}")
    return 0


async def run_execute(admin: Admin, options: Options) -> int:
    """Move partitions where a file says."""
    path = options["reassignment_json_file"]
    return await execute(admin, read_targets(path), options, read_directories(path))


async def verify(admin: Admin, options: Options) -> int:
    """Report for each partition of a file whether it is where it shall be; take throttles away if nothing moves."""
    targets = read_targets(options["reassignment_json_file"])
    ongoing = await admin.list_reassignments()
    present = replicas_of(await admin.describe_topics(None))
    states = {}
    for partition, target in targets.items():
        if partition in ongoing:
            states[partition] = "moving"
        elif partition not in present:
            states[partition] = "missing"
        else:
            states[partition] = "done" if present[partition] == target else "elsewhere"
    directories = read_directories(options["reassignment_json_file"])
    found = await places(admin, directories)
    moves = {replica: place.state(directories[replica]) for replica, place in found.items()}
    cleared = clears = False
    topics = {each.topic for each in targets if each in present}
    if not ongoing and MoveState.MOVING not in moves.values() and not options["preserve_throttles"]:
        clears = True
        cleared = await clear_all_throttles(admin, topics)
    if prints_as_kafka():
        click.echo("\n".join(lines.status_lines(ongoing, present, targets)))
        click.echo("\n".join(lines.directory_lines(moves, directories)))
        if clears:
            brokers = {*(await admin.refresh()).brokers, *(each for ids in targets.values() for each in ids)}
            click.echo("\n".join(lines.cleared_lines(sorted(brokers), sorted(topics))))
        return 0
    if options["as_json"]:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "state": state,
                "replicas": list(present.get(each, ())),
                "target": list(targets[each]),
            }
            for each, state in sorted(states.items())
        ]
        click.echo(
            json.dumps(
                {
                    "partitions": rows,
                    "directories": directory_rows(moves, directories),
                    "throttles_cleared": cleared,
                },
                indent=2,
            )
        )
    else:
        table = new_table("Topic", "Partition", "Replicas", "Target", "State")
        for each, state in sorted(states.items()):
            colour = {"done": "green", "moving": "yellow"}.get(state, "red")
            table.add_row(
                each.topic,
                str(each.partition),
                numbers(present.get(each, ())),
                numbers(targets[each]),
                f"[{colour}]{state}[/{colour}]",
            )
        open_console().print(table)
        show_directories(moves, directories)
        if cleared:
            click.echo("Throttles are cleared.")
    if "moving" in states.values() or MoveState.MOVING in moves.values():
        return STILL_MOVING
    return 0 if set(states.values()) <= {"done"} and set(moves.values()) <= {MoveState.DONE} else FAILED


async def cancel(admin: Admin, options: Options) -> int:
    """Have the partitions of a file go back where they were."""
    targets = read_targets(options["reassignment_json_file"])
    ongoing = await admin.list_reassignments()
    moving = [partition for partition in sorted(targets) if partition in ongoing]
    errors = await admin.alter_reassignments(dict.fromkeys(moving)) if moving else {}
    failed = {partition: error for partition, error in errors.items() if error is not None}
    stayed = await cancel_directories(admin, read_directories(options["reassignment_json_file"]))
    clears = not options["preserve_throttles"] and not await admin.list_reassignments()
    topics: set[str] = set()
    if clears:
        present = replicas_of(await admin.describe_topics(None))
        topics = {each.topic for each in targets if each in present}
        await clear_all_throttles(admin, topics)
    if prints_as_kafka() and not failed:
        click.echo("\n".join(lines.cancelled_lines(moving)))
        if clears:
            brokers = {*(await admin.refresh()).brokers, *(each for ids in targets.values() for each in ids)}
            click.echo("\n".join(lines.cleared_lines(sorted(brokers), sorted(topics))))
    elif options["as_json"]:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "cancelled": each not in failed,
                "error": str(failed[each]) if each in failed else None,
            }
            for each in moving
        ]
        kept = [
            {"topic": each.partition.topic, "partition": each.partition.partition, "broker": each.broker}
            for each in stayed
        ]
        click.echo(json.dumps({"partitions": rows, "directories": kept}, indent=2))
    else:
        for each in moving:
            click.echo(f"{each}: {failed.get(each, 'cancelled')}")
        for replica in stayed:
            click.echo(f"{replica}: stays in its directory")
        if not moving and not stayed:
            click.echo("None of these partitions is being moved.")
    return FAILED if failed else 0


async def list_moves(admin: Admin, options: Options) -> int:
    """List what is being moved."""
    ongoing = await admin.list_reassignments()
    if prints_as_kafka():
        click.echo("\n".join(lines.ongoing_lines(ongoing)))
        return 0
    if options["as_json"]:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
            }
            for each, move in sorted(ongoing.items())
        ]
        click.echo(json.dumps(rows, indent=2))
        return 0
    if not ongoing:
        click.echo("No partition is being moved.")
        return 0
    table = new_table("Topic", "Partition", "Replicas", "Adding", "Removing")
    for each, move in sorted(ongoing.items()):
        table.add_row(
            each.topic,
            str(each.partition),
            numbers(move.replicas),
            numbers(move.adding),
            numbers(move.removing),
        )
    open_console().print(table)
    return 0


async def clear_all_throttles(admin: Admin, topics: set[str]) -> bool:
    """Remove every throttle of live brokers and of topics, whatever set it; return whether there was one."""
    from ottla.client.admin import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ResourceKind

    brokers = (await admin.refresh()).brokers
    resources = [ConfigResource(ResourceKind.BROKER, str(broker)) for broker in brokers]
    resources += [ConfigResource(ResourceKind.TOPIC, topic) for topic in sorted(topics)]
    names = (LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS, RATE)
    own = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    described = await admin.describe_configs(resources) if resources else {}
    changes = {
        resource: [
            ConfigChange(value.name, ConfigOperation.DELETE)
            for value in values
            if value.name in names and value.source in own
        ]
        for resource, values in described.items()
    }
    changes = {resource: found for resource, found in changes.items() if found}
    if changes:
        await admin.alter_configs(changes)
    return bool(changes)


def _write(path: Path, assignment: Mapping[TopicPartition, Replicas]) -> None:
    try:
        path.write_text(json.dumps(as_object(assignment), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


RUN: Final[Mapping[str, Callable[[Admin, Options], Awaitable[int]]]] = {
    "plan": plan,
    "generate": generate,
    "execute": run_execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_moves,
}
