"""``ottla transactions``: kafka-transactions' commands and flags, against a cluster's public protocol."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.kafka_lines.tables import table_lines
from ottla.commands.terminal.connecting import common_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.commands.terminal.suggestions import SuggestingGroup
from ottla.commands.transactions.hanging import find_hanging_ones
from timing.clock import SystemClock
from wire.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition, WallMs

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ProducerDescription

_HANGING_AFTER_MIN: Final = 15
_Body = Callable[["Admin"], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Target:
    """How to reach the cluster."""

    bootstrap_server: str
    timeout_s: float
    command_config: Path | None

    def run(self, body: _Body) -> None:
        """Connect, and do something; False ends with status 1."""
        if not with_admin("transactions", self.bootstrap_server, self.timeout_s, self.command_config, body):
            raise click.exceptions.Exit(1)


@click.group("transactions", cls=SuggestingGroup)
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="Brokers to connect to.")
@common_options
@click.pass_context
def command(
    context: click.Context,
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """List and describe transactions; find and abort those that hang."""
    context.obj = (_Target(bootstrap_server, timeout_s, command_config), as_json)


@command.command("list")
@click.option("--duration-filter", type=int, default=-1, metavar="MS", help="Only what began longer ago.")
@click.option("--state", "states", multiple=True, help="Only ids in this state; repeatable.")
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, help="Only this producer's; repeatable."
)
@click.pass_obj
def list_(
    obj: tuple[_Target, bool], duration_filter: int, states: Sequence[str], producer_ids: Sequence[int]
) -> None:
    """List the transactional ids of all coordinators."""
    target, as_json = obj

    async def body(admin: "Admin") -> bool:
        found = await admin.list_transactions(
            states, [ProducerId(each) for each in producer_ids], longer_than_ms=duration_filter
        )
        _print(
            ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
            [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found],
            [asdict(each) for each in found],
            as_json=as_json,
        )
        return True

    target.run(body)


@command.command("describe")
@click.option("--transactional-id", required=True, help="The id.")
@click.pass_obj
def describe(obj: tuple[_Target, bool], transactional_id: str) -> None:
    """Describe a transactional id: its producer, its state, and the partitions that are in its transaction."""
    target, as_json = obj

    async def body(admin: "Admin") -> bool:
        found = await admin.describe_transaction(transactional_id)
        duration = None if found.started_at < 0 else SystemClock().wall_ms() - found.started_at
        partitions = [f"{topic}-{number}" for topic, number in found.partitions]
        _print(
            (
                "CoordinatorId",
                "TransactionalId",
                "ProducerId",
                "ProducerEpoch",
                "TransactionState",
                "TransactionTimeoutMs",
                "CurrentTransactionStartTimeMs",
                "TransactionDurationMs",
                "TopicPartitions",
            ),
            [
                (
                    found.coordinator,
                    found.transactional_id,
                    found.producer_id,
                    found.producer_epoch,
                    found.state,
                    found.timeout_ms,
                    None if found.started_at < 0 else found.started_at,
                    duration,
                    ",".join(partitions),
                )
            ],
            {**asdict(found), "partitions": partitions, "duration_ms": duration},
            as_json=as_json,
        )
        return True

    target.run(body)


@command.command("describe-producers")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=click.IntRange(min=0), required=True, help="The partition.")
@click.option("--broker-id", type=int, help="Ask this broker's replica; the leader by default.")
@click.pass_obj
def describe_producers(obj: tuple[_Target, bool], topic: str, partition: int, broker_id: int | None) -> None:
    """Describe the producers that a partition knows, with their open transactions."""
    target, as_json = obj

    async def body(admin: "Admin") -> bool:
        found = await _producers_of(admin, TopicPartition(topic, partition), broker_id)
        _print(
            (
                "ProducerId",
                "ProducerEpoch",
                "LatestCoordinatorEpoch",
                "LastSequence",
                "LastTimestamp",
                "CurrentTransactionStartOffset",
            ),
            [
                (
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.transaction_start if each.transaction_start >= 0 else "None",
                )
                for each in found
            ],
            [asdict(each) for each in found],
            as_json=as_json,
        )
        return True

    target.run(body)


@command.command("abort")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=click.IntRange(min=0), required=True, help="The partition.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Where the transaction begins.")
@click.option("--producer-id", type=int, help="Its producer, for brokers that cannot describe producers.")
@click.option("--producer-epoch", type=int, help="That producer's epoch.")
@click.option("--coordinator-epoch", type=int, help="The epoch of its coordinator.")
@click.pass_obj
def abort(
    obj: tuple[_Target, bool],
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort an open transaction in one partition. Its coordinator is not asked: only for one that hangs."""
    target, as_json = obj
    named = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (producer_id is None):
        raise click.UsageError("one of --start-offset and --producer-id is needed, and not both")
    if producer_id is not None and None in named:
        raise click.UsageError("--producer-id needs --producer-epoch and --coordinator-epoch")
    if producer_id is None and named != (None, None, None):
        raise click.UsageError("--producer-epoch and --coordinator-epoch go with --producer-id")
    at = TopicPartition(topic, partition)

    async def body(admin: "Admin") -> bool:
        if start_offset is None:
            producer, epoch, coordinator = producer_id or 0, producer_epoch or 0, coordinator_epoch or 0
        else:
            found = await _producers_of(admin, at, None)
            open_ = next((each for each in found if each.transaction_start == start_offset), None)
            if open_ is None:
                raise CommandError(
                    f"no transaction of {topic}-{partition} is open from offset {start_offset} on"
                )
            producer, epoch, coordinator = open_.producer_id, open_.producer_epoch, open_.coordinator_epoch
        await admin.abort_in_partition(at, ProducerId(producer), ProducerEpoch(epoch), coordinator)
        if as_json:
            click.echo(json.dumps({"topic": topic, "partition": partition, "producer_id": producer}))
        else:
            click.echo(f"aborted the transaction of producer {producer} in {topic}-{partition}")
        return True

    target.run(body)


@command.command("find-hanging")
@click.option("--broker-id", type=int, help="Look at the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(min=0),
    default=_HANGING_AFTER_MIN,
    show_default=True,
    metavar="MINUTES",
    help="How long a transaction may be open.",
)
@click.option("--topic", help="Only this topic.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of it.")
@click.pass_obj
def find_hanging(
    obj: tuple[_Target, bool],
    broker_id: int | None,
    max_transaction_timeout: int,
    topic: str | None,
    partition: int | None,
) -> None:
    """Find transactions that no coordinator will end: partitions wait for them for ever."""
    target, as_json = obj
    if broker_id is None and topic is None:
        raise click.UsageError("--broker-id or --topic is needed")
    if partition is not None and topic is None:
        raise click.UsageError("--partition goes with --topic")

    async def body(admin: "Admin") -> bool:
        places = await _places(admin, topic, partition, broker_id)
        now = SystemClock().wall_ms()
        long_ms = max_transaction_timeout * 60_000
        hanging = await find_hanging_ones(
            admin, places, now - long_ms, None if broker_id is None else BrokerId(broker_id)
        )
        _print_hanging(hanging, now, as_json)
        return True

    target.run(body)


def _print_hanging(
    hanging: Sequence[tuple[TopicPartition, "ProducerDescription"]], now: WallMs, as_json: bool
) -> None:
    _print(
        (
            "Topic",
            "Partition",
            "ProducerId",
            "ProducerEpoch",
            "CoordinatorEpoch",
            "StartOffset",
            "LastTimestamp",
            "Duration(min)",
        ),
        [
            (
                at.topic,
                at.partition,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_start,
                each.last_timestamp,
                (now - each.last_timestamp) // 60_000,
            )
            for at, each in hanging
        ],
        [{"topic": at.topic, "partition": at.partition, **asdict(each)} for at, each in hanging],
        as_json=as_json,
    )


async def _producers_of(
    admin: "Admin", at: TopicPartition, broker_id: int | None
) -> "list[ProducerDescription]":
    found = (await admin.describe_producers([at], None if broker_id is None else BrokerId(broker_id)))[at]
    if not isinstance(found, list):
        raise found
    return found


async def _places(
    admin: "Admin", topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    described = await admin.describe_topics(None if topic is None else [topic])
    return [
        TopicPartition(each.name, one.partition)
        for each in described
        for one in each.partitions
        if partition in (None, one.partition) and (broker_id is None or broker_id in one.replicas)
    ]


def _print(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    as_data: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    if as_json:
        click.echo(json.dumps(as_data))
        return
    if prints_as_kafka():
        click.echo("\n".join(table_lines(columns, rows)))
        return
    from ottla.commands.terminal.console import new_table, open_console

    table = new_table(*columns)
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row))
    open_console().print(table)
