"""``ottla verify-replicas``: kafka-replica-verification's flags, and a mode that ends."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.client.errors import ClientError
from ottla.commands.terminal.connecting import common_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.interruption import on_interrupt
from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.descriptions import TopicDescription
    from ottla.commands.diagnosis.replica_verification import Verification

Tell = Callable[[str], None]
_LATEST: Final = -1
_EARLIEST: Final = -2


@click.command("verify-replicas")
@click.option(
    *("--broker-list", "--bootstrap-server", "servers"),
    required=True,
    metavar="HOST:PORT,...",
    help="Brokers to connect to.",
)
@click.option("--topics-include", metavar="REGEX", help="Which topics; all if not given.")
@click.option("--topic-white-list", metavar="REGEX", help="The same, by its old name.")
@click.option(
    "--time",
    type=int,
    help="Where to begin: a time in ms, -1 for the end, -2 for the start. The end if not given; "
    "the start with --until-end.",
)
@click.option(
    "--fetch-size", type=click.IntRange(1), default=1024 * 1024, show_default=True, help="Bytes of each."
)
@click.option(
    "--max-wait-ms", type=click.IntRange(0), default=1000, show_default=True, help="How long fetches wait."
)
@click.option(
    "--report-interval-ms", type=click.IntRange(1), default=30_000, show_default=True, help="Between reports."
)
@click.option(
    "--until-end", is_flag=True, help="Stop at what is in the logs now, and say whether it is equal."
)
@common_options
def command(
    servers: str, timeout_s: float, command_config: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare the replicas of partitions with each other, up to the high watermark.

    Replicas must hold the same bytes; of compacted topics, which every broker cleans by itself, the same records.
    Without --until-end it goes on until Ctrl-C. The exit code is 1 if any replica differs, or could not be read.
    """
    pattern = options["topics_include"] or options["topic_white_list"] or ".*"
    try:
        chosen = re.compile(pattern)
    except re.error as error:
        raise CommandError(f"{pattern} is an invalid regex: {error}") from error

    async def body(admin: "Admin") -> bool:
        topics = [topic for topic in await admin.describe_topics(None) if chosen.fullmatch(topic.name)]
        if not topics:
            raise CommandError(f"no topic fits {pattern}")
        tell = partial(_tell, err=as_json)
        verification = await _prepare(admin, topics, options["time"], tell, until_end=options["until_end"])
        is_equal = await _verify(verification, timeout_s, tell, options)
        if as_json:
            outcome = {
                "equal": is_equal,
                "differences": verification.differences,
                "cleaned": verification.cleaned,
                "unverified": verification.unverified() if options["until_end"] else [],
                "delayed": {str(partition): why for partition, why in verification.delayed.items()},
            }
            click.echo(json.dumps(outcome))
        return is_equal

    if not with_admin("verify-replicas", servers, timeout_s, command_config, body):
        raise click.exceptions.Exit(1)


async def _prepare(
    admin: "Admin", topics: "list[TopicDescription]", time: int | None, tell: Tell, *, until_end: bool
) -> "Verification":
    from ottla.client.admin.descriptions import ConfigResource, ResourceKind
    from ottla.commands.diagnosis.replica_verification import Verification

    replicas = {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in topics
        for each in topic.partitions
    }
    resources = [ConfigResource(ResourceKind.TOPIC, topic.name) for topic in topics]
    compacted = frozenset(
        resource.name
        for resource, values in (await admin.describe_configs(resources)).items()
        for value in values
        if value.name == "cleanup.policy" and "compact" in (value.value or "")
    )
    begin = time if time is not None else _EARLIEST if until_end else _LATEST
    ends = await _offsets(admin, replicas, _LATEST)
    starts = ends if begin == _LATEST else await _offsets(admin, replicas, begin)
    return Verification(
        admin,
        replicas,
        {topic.name: topic.topic_id for topic in topics},
        compacted,
        # Where no record is as young as asked for, there is nothing before the end.
        {
            partition: ends[partition] if starts[partition] < 0 else starts[partition]
            for partition in replicas
        },
        ends if until_end else None,
        tell,
    )


async def _offsets(
    admin: "Admin", partitions: "dict[TopicPartition, Any]", time: int
) -> dict[TopicPartition, Offset]:
    found = {}
    for partition, offset in (await admin.list_offsets(dict.fromkeys(partitions, time))).items():
        if isinstance(offset, ClientError):
            raise CommandError(f"{partition}: {offset}")
        found[partition] = offset.offset
    return found


async def _verify(
    verification: "Verification", timeout_s: float, tell: Tell, options: dict[str, Any]
) -> bool:
    """Verify until everything is compared, or Ctrl-C; return whether all replicas are equal."""
    import trio

    tell("verification process is started")
    interval_s = options["report_interval_ms"] / 1000
    reported = progressed = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(on_interrupt, nursery.cancel_scope.cancel)
        while not verification.is_done:
            moved = await verification.round(
                partition_bytes=options["fetch_size"], max_wait_ms=options["max_wait_ms"]
            )
            now = trio.current_time()
            if moved:
                progressed = now
            elif options["until_end"] and now - progressed > timeout_s:
                break
            if now - reported >= interval_s:
                reported = now
                tell(verification.report())
        nursery.cancel_scope.cancel()
    if not options["until_end"]:
        return not verification.differences and not verification.delayed
    tell(verification.report())
    unverified = verification.unverified()
    for line in unverified:
        tell(line)
    cleaned = f", {verification.cleaned} records are cleaned on some replicas" if verification.cleaned else ""
    tell(f"{verification.differences} differences{cleaned}")
    return not verification.differences and not unverified


def _tell(line: str, *, err: bool) -> None:
    from datetime import datetime

    now = datetime.now().astimezone()
    click.echo(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}: {line}", err=err)
