"""``ottla consumer-offset-checker``: Kafka's ConsumerOffsetChecker, for groups of old consumers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.groups.zookeeper_groups import ZooKeeperGroups, with_zookeeper_groups
from ottla.commands.terminal.connecting import config_option
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.zookeeper import zookeeper_config_option
from security.zookeeper_access import ZooKeeperAccess
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_LATEST: Final = -1
_LINE: Final = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
_HEADER: Final = ("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
_UNKNOWN: Final = "unknown"


@click.command("consumer-offset-checker")
@click.option(
    "--zookeeper",
    default="localhost:2181",
    show_default=True,
    metavar="HOST:PORT[/CHROOT]",
    help="The ensemble of the group and its brokers.",
)
@click.option("--group", required=True, help="The group.")
@click.option(
    "--topic", "topics", metavar="TOPIC,...", help="The topics; those that it owns or owned by default."
)
@click.option(
    "--socket.timeout.ms",
    "socket_timeout_ms",
    type=click.IntRange(min=1),
    default=6000,
    show_default=True,
    help="How long brokers may take to answer.",
)
@click.option(
    "--retry.backoff.ms",
    "retry_backoff_ms",
    type=click.IntRange(min=0),
    default=3000,
    show_default=True,
    help="Accepted: what fails is tried again until the time is over, with the client's own back-off.",
)
@click.option("--broker-info", is_flag=True, help="Print the brokers' addresses, too.")
@config_option
@zookeeper_config_option("-zk-tls-config-file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(
    zookeeper: str,
    group: str,
    topics: str | None,
    socket_timeout_ms: int,
    retry_backoff_ms: int,  # noqa: ARG001 - Kafka's flag
    broker_info: bool,
    command_config: Path | None,
    access: ZooKeeperAccess,
    as_json: bool,
) -> None:
    """Show where a group of old consumers is in each partition, and which thread owns it.

    An offset in Kafka is shown before one in ZooKeeper.
    """
    named = None if topics is None else [each.strip() for each in topics.split(",") if each.strip()]

    async def body(admin: "Admin", groups: ZooKeeperGroups) -> tuple[list[dict[str, Any]], dict[int, str]]:
        rows = await _rows(admin, groups, group, named)
        brokers = (await admin.refresh()).brokers
        return rows, {each.broker_id: f"{each.host}:{each.port}" for each in brokers.values()}

    timeout_s = socket_timeout_ms / 1000
    rows, brokers = with_zookeeper_groups(zookeeper, access, None, timeout_s, command_config, body)
    if as_json:
        found: dict[str, Any] = {"partitions": rows}
        click.echo(json.dumps(found | ({"brokers": brokers} if broker_info else {})))
        return
    click.echo(_LINE.format(*_HEADER))
    for row in rows:
        shown = [_UNKNOWN if row[name] is None else row[name] for name in ("offset", "log_size", "lag")]
        click.echo(_LINE.format(group, row["topic"], row["partition"], *shown, row["owner"] or "none"))
    if broker_info:
        click.echo("BROKER INFO")
        for broker_id, address in sorted(brokers.items()):
            click.echo(f"{broker_id} -> {address}")


async def _rows(
    admin: "Admin", groups: ZooKeeperGroups, group: str, named: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return a row for each partition; topics that were deleted have none, unless they are named.

    Raises:
        CommandError: there is no such group, or it has no topic.
        ClientError: a topic that was named does not exist.
    """
    from ottla.client.admin import FoundOffset

    if (await groups.describe_group(group)).state == "Dead":
        raise CommandError(f"group {group!r} does not exist in ZooKeeper")
    owners = await groups.owners(group)
    in_zookeeper = await groups.committed_offsets(group)
    topics = {place.topic for place in {*owners, *in_zookeeper}}
    if named is None and not topics:
        raise CommandError(f"group {group!r} has neither owners nor offsets: name a --topic")
    described = await admin.describe_topics(named)
    places = [
        TopicPartition(topic.name, each.partition)
        for topic in described
        if named is not None or topic.name in topics
        for each in sorted(topic.partitions, key=lambda each: each.partition)
    ]
    in_kafka = await admin.committed_offsets(group)
    ends = await admin.list_offsets(dict.fromkeys(places, _LATEST))
    rows = []
    for place in places:
        position = in_kafka.get(place) or in_zookeeper.get(place)
        offset = None if position is None else position.offset
        end = ends.get(place)
        size = end.offset if isinstance(end, FoundOffset) else None
        rows.append(
            {
                "group": group,
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "log_size": size,
                "lag": None if offset is None or size is None else size - offset,
                "owner": owners.get(place),
            }
        )
    return rows
