"""Carrying a reassignment out: checked, throttled, begun, and followed to its end."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.commands.kafka_lines import reassignments as lines
from ottla.commands.reassignment.directory_moves import (
    MoveState,
    Replica,
    announce,
    begin,
    clear_directory_rate,
    follow_directories,
    set_directory_rate,
)
from ottla.commands.reassignment.plan_file import as_object, as_text
from ottla.commands.reassignment.progress import duration_text, follow
from ottla.commands.reassignment.report import progress_line
from ottla.commands.reassignment.throttle import (
    DEFAULT_RATE,
    Throttle,
    clear_rates,
    ensure_rate,
    set_rate,
    set_throttle,
    throttle_of,
)
from ottla.commands.reassignment.throttle_keeper import release_keeper, start_keeper
from ottla.commands.terminal.console import numbers
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.placement import Replicas
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    import subprocess

    from ottla.client.admin import Reassignment

TOLD_GRACE_S: Final = 10.0
"""How much later than the controller any broker may hear how a reassignment ended."""
TOLD_AGAIN_S: Final = 0.1
KEEPER_GRACE_S: Final = 15.0
"""How long the command waits at its end for the throttle to be taken away."""

Targets = Mapping[TopicPartition, Replicas]
Directories = Mapping[Replica, str]


async def execute(
    admin: Admin,
    targets: Targets,
    options: Mapping[str, Any],
    directories: Directories = MappingProxyType({}),
) -> int:
    """Move partitions.

    Interrupted, it leaves the moves going on, throttled, and their throttle to its keeper.

    Args:
        admin: The cluster.
        targets: The replicas that each partition shall have.
        options: Of the command.
        directories: The log directories that replicas shall be in, where they may not be in any.

    Returns:
        The exit code: 0 once every partition has its replicas, or with ``--no-wait`` once all moves have begun.

    Raises:
        CommandError: a partition or a broker does not exist, or other moves go on.
        ClientError: the cluster refuses.
    """
    ongoing = await admin.list_reassignments()
    before = await checked_replicas(admin, targets, ongoing, additional=options["additional"])
    as_kafka = prints_as_kafka() and not options["plan"]
    quiet = options["as_json"] or as_kafka
    if as_kafka:
        click.echo("\n".join(lines.rollback_lines(as_text(before))))
    if not quiet:
        click.echo("Current replicas, to be used as --reassignment-json-file for the way back:")
        click.echo(as_text(before) + "\n")
    if options["dry_run"]:
        _tell_dry_run(before, targets, as_json=options["as_json"])
        return 0
    rate = DEFAULT_RATE if options["throttle"] is None else options["throttle"]
    throttle = throttle_of(before, targets, rate) if rate >= 0 else None
    started_at = trio.current_time()
    slowed = await _announce_directories(admin, directories, options["replica_alter_log_dirs_throttle"])
    errors, keeper = await begin_moves(admin, before, targets, throttle, options)
    begun = frozenset(partition for partition in targets if errors.get(partition) is None)
    if as_kafka:
        await begin(admin, directories, options["timeout_s"])
        return _tell_as_kafka(begun, errors, directories, options)
    for partition, error in sorted(errors.items()):
        if error is not None:
            click.echo(f"{partition}: {error}", err=True)
    if throttle is not None and not quiet:
        click.echo(
            f"Throttled to {throttle.rate} bytes/s at broker {numbers(throttle.brokers)}, until the moves are over."
        )
    await begin(admin, directories, options["timeout_s"])
    if directories and not quiet:
        until = f", throttled at broker {numbers(slowed)} until --verify" if slowed else ""
        click.echo(f"Begun to move {len(directories)} replicas between log directories{until}.")
    if options["no_wait"]:
        if quiet:
            click.echo(json.dumps({"begun": len(begun), "failed": len(targets) - len(begun)}))
        else:
            click.echo(f"Begun to move {len(begun)} partitions.")
        return 1 if len(begun) < len(targets) else 0
    with progress_line(quiet=quiet) as on_progress:
        await follow(admin, begun, on_progress)
    all_there = await _follow_directories(admin, directories, slowed)
    cleared = await _wait_for_keeper(keeper)
    elapsed = trio.current_time() - started_at
    code = await _tell_end(admin, before, targets, elapsed, throttle_left=not cleared, as_json=quiet)
    return code if all_there else 1


def _tell_as_kafka(
    begun: frozenset[TopicPartition],
    errors: "Mapping[TopicPartition, ClientError | None]",
    directories: Directories,
    options: Mapping[str, Any],
) -> int:
    """Print what Kafka's tool prints when moves have begun; return the exit code."""
    rates = [options["throttle"], options["replica_alter_log_dirs_throttle"]]
    set_rates = [rate if rate is not None and rate >= 0 else None for rate in rates]
    if any(rate is not None for rate in set_rates):
        click.echo(lines.VERIFY_WARNING)
    for line in lines.throttle_lines(*set_rates):
        click.echo(line)
    refused = {partition: error for partition, error in errors.items() if error is not None}
    shown = lines.failed_lines(refused) if refused else lines.started_lines(begun, directories)
    click.echo("\n".join(shown))
    return 1 if refused else 0


async def _announce_directories(admin: Admin, directories: Directories, rate: int | None) -> list[BrokerId]:
    """Assign log directories before the brokers get the replicas; return the brokers that were throttled for it."""
    slowed = sorted({replica.broker for replica in directories}) if rate is not None and rate >= 0 else []
    if slowed:
        await set_directory_rate(admin, slowed, rate or 0)
    await announce(admin, directories)
    return slowed


async def _follow_directories(admin: Admin, directories: Directories, slowed: list[BrokerId]) -> bool:
    """Wait until replicas move no more between directories, and say which are not where they shall be."""
    states = await follow_directories(admin, directories)
    if slowed:
        await clear_directory_rate(admin, slowed)
    lost = sorted(replica for replica, state in states.items() if state is not MoveState.DONE)
    for replica in lost:
        click.echo(f"{replica} is not in {directories[replica]}: {states[replica].value}", err=True)
    return not lost


async def checked_replicas(
    admin: Admin,
    targets: Targets,
    ongoing: "Mapping[TopicPartition, Reassignment]",
    *,
    additional: bool,
) -> dict[TopicPartition, Replicas]:
    """Check the request, and return the current replicas of its partitions.

    Raises:
        CommandError: a partition or a broker does not exist, or other moves go on.
    """
    if ongoing and not additional:
        raise CommandError(
            f"{len(ongoing)} partitions are being moved. --additional moves these besides, or replaces their moves."
        )
    known = {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in await admin.describe_topics(None)
        for partition in topic.partitions
    }
    missing = sorted(targets.keys() - known.keys())
    if missing:
        raise CommandError(f"there is no partition {', '.join(map(str, missing))}")
    live = (await admin.refresh()).brokers
    held = {broker for replicas in known.values() for broker in replicas}
    unknown = sorted({broker for replicas in targets.values() for broker in replicas} - live.keys() - held)
    if unknown:
        raise CommandError(f"there is no broker {numbers(unknown)}")
    return {partition: known[partition] for partition in targets}


async def begin_moves(
    admin: Admin,
    before: Targets,
    targets: Targets,
    throttle: Throttle | None,
    options: Mapping[str, Any],
) -> "tuple[dict[TopicPartition, ClientError | None], subprocess.Popen[bytes] | None]":
    """Set the throttle and begin the moves, or set the rate of moves that go on already.

    Args:
        admin: The cluster.
        before: The replicas that each partition has.
        targets: Those that it shall have.
        throttle: What is throttled; None where nothing new is copied, or nothing is to be throttled.
        options: Of the command: ``bootstrap_server``, ``command_config``, and ``throttle`` in bytes a second.

    Returns:
        What is wrong with each partition, None where its move has begun; and the throttle's keeper, where there is one.

    Raises:
        ClientError: the cluster refuses; the throttle goes away by itself.
    """
    keeper = None
    if throttle is not None:
        keeper = start_keeper(
            options["bootstrap_server"], options["command_config"], targets.keys(), throttle
        )
    try:
        if throttle is not None:
            await set_throttle(admin, throttle)
        elif options["throttle"] is not None:
            # Nothing new is copied: what goes on already gets another rate. Its keeper stays the same.
            brokers = {each for part in (before, targets) for replicas in part.values() for each in replicas}
            if options["throttle"] >= 0:
                await set_rate(admin, tuple(sorted(brokers)), options["throttle"])
            else:
                await clear_rates(admin, tuple(sorted(brokers)))
        errors = await admin.alter_reassignments(targets)
        if throttle is not None:
            # The keeper of moves that have just ended may not have known of these.
            await ensure_rate(admin, throttle)
        return errors, keeper
    finally:
        if keeper is not None:
            release_keeper(keeper)


async def _wait_for_keeper(keeper: "subprocess.Popen[bytes] | None") -> bool:
    """Wait until the throttle has been taken away; False where that takes long, because others still move."""
    if keeper is None:
        return True
    with trio.move_on_after(KEEPER_GRACE_S):
        return await trio.to_thread.run_sync(keeper.wait, abandon_on_cancel=True) == 0
    return False


def _tell_dry_run(before: Targets, targets: Targets, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"current": as_object(before), "proposed": as_object(targets)}, indent=2))
        return
    for partition, replicas in sorted(targets.items()):
        click.echo(f"{partition}: {numbers(before[partition])} would become {numbers(replicas)}")


async def _tell_end(
    admin: Admin,
    before: Targets,
    targets: Targets,
    elapsed_s: float,
    *,
    throttle_left: bool,
    as_json: bool,
) -> int:
    after = await _replicas(admin)
    give_up_at = trio.current_time() + TOLD_GRACE_S
    while trio.current_time() < give_up_at and any(after.get(each) != targets[each] for each in targets):
        await trio.sleep(TOLD_AGAIN_S)
        after = await _replicas(admin)
    elsewhere = [each for each in sorted(targets) if after.get(each) != targets[each]]
    if as_json:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "before": list(before[each]),
                "target": list(targets[each]),
                "replicas": list(after.get(each, ())),
                "done": each not in elsewhere,
            }
            for each in sorted(targets)
        ]
        click.echo(
            json.dumps({"partitions": rows, "seconds": round(elapsed_s, 3), "throttle_left": throttle_left})
        )
        return 1 if elsewhere else 0
    for each in elsewhere:
        click.echo(
            f"{each} has the replicas {numbers(after.get(each, ()))}, not {numbers(targets[each])}", err=True
        )
    click.echo(f"Moved {len(targets) - len(elsewhere)} partitions in {duration_text(elapsed_s)}.")
    if throttle_left:
        click.echo("The throttle is taken away when the other moves are over.")
    return 1 if elsewhere else 0


async def _replicas(admin: Admin) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in await admin.describe_topics(None)
        for partition in topic.partitions
    }
