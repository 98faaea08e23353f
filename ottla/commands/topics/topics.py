"""``ottla topics``: kafka-topics' flags, against a cluster's public protocol."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_ACTIONS: Final = ("create", "list", "describe", "alter", "delete")

# Which actions each option goes with, as kafka-topics has it; the others go with any.
_GOES_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "config": ("create",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "if_not_exists": ("create",),
    "if_exists": ("alter", "delete", "describe"),
    "topic_id": ("describe",),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
    "exclude_internal": ("list", "describe"),
}


@click.command("topics")
@cluster_options
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--list", "list_", is_flag=True, help="List topics.")
@click.option("--describe", is_flag=True, help="Show partitions, leaders, replicas and ISR.")
@click.option("--alter", is_flag=True, help="Add partitions.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option("--topic", help="The topic; a regular expression (commas for or) except with --create.")
@click.option("--topic-id", help="The topic to describe, by id.")
@click.option("--partitions", type=click.IntRange(min=1), help="How many partitions.")
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="Replicas of each partition.")
@click.option(
    "--replica-assignment",
    metavar="0:1:2,1:2:0",
    help="Brokers of each partition, the preferred leader first.",
)
@click.option("--config", multiple=True, metavar="NAME=VALUE", help="A setting of the new topic; repeatable.")
@click.option("--if-exists", is_flag=True, help="Succeed where no topic is found.")
@click.option("--if-not-exists", is_flag=True, help="Succeed where the topic exists already.")
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Only partitions with replicas out of sync."
)
@click.option("--unavailable-partitions", is_flag=True, help="Only partitions without a live leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Only partitions below min.insync.replicas.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Only partitions at min.insync.replicas.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with settings of their own.")
@click.option("--exclude-internal", is_flag=True, help="Leave out the cluster's own topics.")
def command(bootstrap_server: str, timeout_s: float, command_config: Path | None, **options: Any) -> None:
    """Create, list, describe, alter and delete topics."""
    options["list"] = options.pop("list_")
    action = _action(options)

    async def body(admin: "Admin") -> None:
        await _RUN[action](admin, options)

    with_admin("topics", bootstrap_server, timeout_s, command_config, body)


def _action(options: Mapping[str, Any]) -> str:
    given = [action for action in _ACTIONS if options[action]]
    if len(given) != 1:
        raise click.UsageError("exactly one of --create, --list, --describe, --alter and --delete is needed")
    (action,) = given
    for option, actions in _GOES_WITH.items():
        if options[option] not in (None, False, ()) and action not in actions:
            raise click.UsageError(f"--{option.replace('_', '-')} does not go with --{action}")
    if options["topic"] is None and action in ("create", "alter", "delete"):
        raise click.UsageError(f"--{action} needs --topic")
    if options["partitions"] is None and action == "alter":
        raise click.UsageError("--alter needs --partitions")
    if options["replica_assignment"] is not None and action == "create":
        for name in ("partitions", "replication_factor"):
            if options[name] is not None:
                raise click.UsageError(f"--replica-assignment does not go with --{name.replace('_', '-')}")
    reports = [name for name in _GOES_WITH if name.endswith("_partitions") and options[name]]
    if len(reports) + options["topics_with_overrides"] > 1:
        raise click.UsageError("only one choice of partitions or topics can be made")
    return action


def parse_replica_assignment(text: str) -> dict[int, list[int]]:
    """Read ``0:1:2,1:2:0``: brokers of partition 0, then of partition 1.

    Raises:
        ValueError: a broker is no number or stands twice, or the lists differ in length.
    """
    assignment = {}
    for partition, entry in enumerate(text.split(",")):
        try:
            brokers = [int(part) for part in entry.split(":")]
        except ValueError:
            raise ValueError(f"{entry!r} in the replica assignment is not BROKER:BROKER:...") from None
        if len(set(brokers)) != len(brokers):
            raise ValueError(f"a broker stands twice in {entry!r} of the replica assignment")
        assignment[partition] = brokers
    if len({len(brokers) for brokers in assignment.values()}) > 1:
        raise ValueError("every partition of the replica assignment needs the same number of brokers")
    return assignment


def parse_configs(texts: Sequence[str]) -> dict[str, str]:
    """Read settings given as ``name=value``.

    Raises:
        ValueError: one is not.
    """
    configs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--config {text!r} is not NAME=VALUE")
        configs[name.strip()] = value.strip()
    return configs


async def _create(admin: "Admin", options: Mapping[str, Any]) -> None:
    from ottla.client.admin import NewTopic
    from ottla.client.errors import refusal
    from wire.errors import Error

    name = options["topic"]
    if ("." in name or "_" in name) and prints_as_kafka():
        from ottla.commands.kafka_lines.topics import collision_warning

        click.echo(collision_warning())
    elif "." in name or "_" in name:
        click.echo(
            "Warning: metrics write both '.' and '_' as '_', so topic names that differ only there collide.",
            err=True,
        )
    topic = NewTopic(
        name,
        partitions=options["partitions"] or -1,
        replication_factor=options["replication_factor"] or -1,
        assignment=parse_replica_assignment(options["replica_assignment"])
        if options["replica_assignment"]
        else {},
        configs=parse_configs(options["config"]),
    )
    results = await admin.create_topics([topic])
    created = results[name] is Error.NONE
    if not created and not options["if_not_exists"]:
        raise refusal(results[name], f"topic {name!r} exists already")
    if options["as_json"]:
        click.echo(json.dumps({"topic": name, "created": created}))
    elif created:
        click.echo(f"Created topic {name}.")


async def _list(admin: "Admin", options: Mapping[str, Any]) -> None:
    names = await _matching(admin, options, internal=not options["exclude_internal"])
    if options["as_json"]:
        click.echo(json.dumps(names))
    elif names or prints_as_kafka():
        click.echo("\n".join(names))


async def _describe(admin: "Admin", options: Mapping[str, Any]) -> None:
    from ottla.commands.topics.topic_report import report

    if options["topic_id"] is not None:
        wanted = [
            t.name for t in await admin.describe_topics(None) if _has_id(t.topic_id, options["topic_id"])
        ]
        _require(wanted, options, f"no topic has the id {options['topic_id']}")
    else:
        wanted = await _matching(admin, options, internal=not options["exclude_internal"])
        _require(wanted, options, f"there is no topic {options['topic']!r}")
    await report(admin, wanted, options)


async def _alter(admin: "Admin", options: Mapping[str, Any]) -> None:
    names = await _matching(admin, options, internal=True)
    _require(names, options, f"there is no topic {options['topic']!r}")
    total = options["partitions"]
    assignments = None
    if options["replica_assignment"]:
        placed = parse_replica_assignment(options["replica_assignment"])
        # The list names every partition, as kafka-topics wants it; those that exist stay where they are.
        assignments = {
            topic.name: [placed[index] for index in range(len(topic.partitions), len(placed))]
            for topic in await admin.describe_topics(names)
        }
    if names:
        await admin.create_partitions(dict.fromkeys(names, total), assignments)
    if options["as_json"]:
        click.echo(json.dumps({"topics": names, "partitions": total}))
    for name in [] if options["as_json"] or prints_as_kafka() else names:
        click.echo(f"Topic {name} has {total} partitions.")


async def _delete(admin: "Admin", options: Mapping[str, Any]) -> None:
    names = await _matching(admin, options, internal=True)
    _require(names, options, f"there is no topic {options['topic']!r}")
    internal = sorted(INTERNAL_TOPICS.intersection(names))
    if internal:
        raise CommandError(f"{', '.join(internal)}: the cluster's own topics cannot be deleted")
    if names:
        await admin.delete_topics(names)
    if options["as_json"]:
        click.echo(json.dumps({"deleted": names}))
    for name in [] if options["as_json"] or prints_as_kafka() else names:
        click.echo(f"Deleted topic {name}.")


_RUN: Final = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}


async def _matching(admin: "Admin", options: Mapping[str, Any], *, internal: bool) -> list[str]:
    names = await admin.list_topics(internal=internal)
    return names if options["topic"] is None else matching(options["topic"], names)


def matching(expression: str, names: Sequence[str]) -> list[str]:
    """Choose names by a topic expression: a regular expression that fits all of the name, a comma for or.

    Raises:
        ValueError: it is no regular expression.
    """
    import re

    text = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"--topic {expression!r} is no regular expression: {error}") from None
    return [name for name in names if pattern.fullmatch(name)]


def _has_id(topic_id: bytes, text: str) -> bool:
    from wire.types import parse_topic_id

    return topic_id == parse_topic_id(text)


def _require(names: Sequence[str], options: Mapping[str, Any], message: str) -> None:
    named = options["topic"] is not None or options["topic_id"] is not None
    if not names and named and not options["if_exists"]:
        raise CommandError(message)
