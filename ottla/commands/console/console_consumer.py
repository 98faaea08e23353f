"""``ottla console-consumer``: kafka-console-consumer's flags; records become lines of the standard output."""

import math
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.clients import (
    INTERRUPTED,
    key_values,
    merged_properties,
    read_arguments,
    run_client,
)
from ottla.commands.terminal.connecting import client_settings
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from ottla.client import Group, Kafka, Reader
    from ottla.client_properties import ClientArguments
    from ottla.commands.console.consumption import Consumption
    from ottla.commands.console.formatters import Formatter

_FORMS: Final = ("json", "csv", "columns")
_GROUP_ONLY: Final = (
    "instance_id",
    "assignors",
    "session_timeout",
    "heartbeat_interval",
    "rebalance_timeout",
)
_DEFAULT: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


@click.command("console-consumer")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="Brokers to connect to.")
@click.option("--topic", help="The topic to consume.")
@click.option("--include", metavar="REGEX", help="Consume the topics whose names match.")
@click.option("--whitelist", metavar="REGEX", help="The older name of --include.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition; without a group.")
@click.option(
    "--offset", metavar="earliest|latest|N", help="Where to begin in the partition; latest by default."
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin at the earliest record where nothing is committed."
)
@click.option("--max-messages", type=click.IntRange(min=-1), help="End after so many records; -1 for never.")
@click.option("--timeout-ms", type=int, help="End when nothing comes for so long; -1 for never.")
@click.option(
    "--exit-at-end", is_flag=True, help="End where the partitions ended at the start; without a group."
)
@click.option(
    "--group", metavar="GROUP", help="The group; one of a random name, which commits nothing, by default."
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Whether records of open and aborted transactions are shown; read_uncommitted by default.",
)
@click.option("--skip-message-on-error", is_flag=True, help="Pass over records that cannot be written.")
@click.option(
    "--formatter", "formatter_name", default=_DEFAULT, metavar="CLASS", help="One of Kafka's formatters."
)
@click.option("--json", "as_json", is_flag=True, help="Write an object a line; the same as --format json.")
@click.option("--format", "form", type=click.Choice(_FORMS), help="Write JSON lines, CSV or columns.")
@click.option("--columns", metavar="NAME,...", help="What JSON or CSV hold of each record.")
@click.option(
    "--property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the formatter: print.timestamp, print.key, print.offset, print.partition, print.headers, "
    "print.value, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
    "value.deserializer, headers.deserializer.",
)
@click.option(
    "--formatter-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of such properties.",
)
@click.option("--key-deserializer", metavar="CLASS", help="One of Kafka's deserialisers.")
@click.option("--value-deserializer", metavar="CLASS", help="Likewise.")
@click.option(
    "--consumer-property", multiple=True, metavar="NAME=VALUE", help="A consumer's property; repeatable."
)
@click.option(
    "--consumer.config",
    "--command-config",
    "consumer_config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of such properties.",
)
@click.option("--enable-systest-events", is_flag=True, help="Print shutdown_complete at the end.")
def command(bootstrap_server: str, **options: Any) -> None:
    """Write the records of topics to the standard output."""
    from ottla.client_properties import consumer_arguments
    from ottla.commands.console.consumption import Consumption
    from ottla.commands.console.standard_output import OutputClosed, StandardOutput
    from ottla.commands.terminal.progress import ProgressLine

    _check(options)
    properties = merged_properties(
        options["consumer_config"], "--consumer-property", options["consumer_property"]
    )
    group = _group_id(options, properties)
    properties.setdefault("client.id", "console-consumer")
    properties["isolation.level"] = (
        options["isolation_level"] or properties.get("isolation.level") or "read_uncommitted"
    )
    _set_reset(options, properties)
    arguments = read_arguments(properties, consumer_arguments)
    formatter = _formatter(options)
    maximum, timeout_ms = options["max_messages"], options["timeout_ms"]
    consumption = Consumption(
        formatter,
        StandardOutput(),
        max_messages=None if maximum in (None, -1) else maximum,
        timeout_s=math.inf if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000,
        on_bad=_report if options["skip_message_on_error"] else None,
    )
    progress = ProgressLine(
        lambda: consumption.count, "read", shown=sys.stderr.isatty() and not sys.stdout.isatty()
    )

    async def body(kafka: "Kafka") -> None:
        import trio

        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.run)
            try:
                await _consume(kafka, consumption, group, arguments, options)
            except OutputClosed:
                click.echo("Unable to write to standard out, closing consumer.", err=True)
            nursery.cancel_scope.cancel()

    try:
        _, interrupted = run_client(bootstrap_server, arguments.connection, body)
    finally:
        progress.clear()
        click.echo(f"Processed a total of {consumption.count} messages", err=True)
        if options["enable_systest_events"]:
            click.echo("shutdown_complete")
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _report(text: str) -> None:
    click.echo(f"error: skipped {text}", err=True)


def _check(options: Mapping[str, Any]) -> None:
    if (options["topic"] is None) == (options["include"] is None and options["whitelist"] is None):
        raise click.UsageError("exactly one of --topic and --include is needed")
    if options["partition"] is not None:
        if options["topic"] is None:
            raise click.UsageError("--partition needs --topic")
        if options["from_beginning"] and options["offset"] is not None:
            raise click.UsageError("--from-beginning and --offset cannot be given together")
    elif options["offset"] is not None:
        raise click.UsageError("--offset needs --partition")
    if options["form"] is not None and options["as_json"] and options["form"] != "json":
        raise click.UsageError(f"--json does not go with --format {options['form']}")
    if (options["form"] or options["as_json"]) and options["formatter_name"] != _DEFAULT:
        raise click.UsageError("--formatter does not go with --format and --json")
    if options["columns"] is not None and not (options["as_json"] or options["form"] in ("json", "csv")):
        raise click.UsageError("--columns goes with --format json and csv")
    if options["topic"] is None:
        _pattern(options)
    _start(options)


def _group_id(options: Mapping[str, Any], properties: Mapping[str, str]) -> str | None:
    """Return the group that was asked for, None for one of a random name.

    Raises:
        click.UsageError: Two places name different ones, or something does not go with a group.
    """
    given = {name for name in (options["group"], properties.get("group.id")) if name is not None}
    if len(given) > 1:
        raise click.UsageError(
            "--group, --consumer-property and --consumer.config name different groups: "
            + ", ".join(sorted(given))
        )
    if given and options["partition"] is not None:
        raise click.UsageError("--group and --partition cannot be given together")
    if given and options["exit_at_end"]:
        raise click.UsageError("--exit-at-end reads without a group")
    return next(iter(given), None)


def _set_reset(options: Mapping[str, Any], properties: dict[str, str]) -> None:
    reset = properties.get("auto.offset.reset")
    if options["from_beginning"] and reset not in (None, "earliest"):
        raise click.UsageError(f"--from-beginning contradicts auto.offset.reset={reset}")
    if reset == "none":
        raise CommandError("auto.offset.reset=none: say earliest or latest")
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if options["from_beginning"] else "latest"


def _start(options: Mapping[str, Any]) -> str | int:
    text = options["offset"]
    if text is None:
        return "earliest" if options["from_beginning"] else "latest"
    if text.lower() in ("earliest", "latest"):
        return str(text).lower()
    if not re.fullmatch(r"\d+", text):
        raise click.UsageError(f"--offset {text!r} is none of earliest, latest and a number")
    return int(text)


def _formatter(options: Mapping[str, Any]) -> "Formatter":
    from ottla.commands.console.formatters import (
        COLUMNS,
        ColumnsFormatter,
        CsvFormatter,
        JsonFormatter,
        formatter,
    )

    form = "json" if options["as_json"] else options["form"]
    columns = None if options["columns"] is None else [each.strip() for each in options["columns"].split(",")]
    for name in columns or ():
        if name not in COLUMNS:
            raise click.UsageError(f"--columns {name!r} is none of {', '.join(COLUMNS)}")
    if form == "json":
        return JsonFormatter() if columns is None else JsonFormatter(columns)
    if form == "csv":
        return CsvFormatter() if columns is None else CsvFormatter(columns)
    if form == "columns":
        return ColumnsFormatter()
    with failing_on(OSError, ValueError):
        properties = client_settings(options["formatter_config"])
        for option, name in (("key_deserializer", "key"), ("value_deserializer", "value")):
            if options[option]:
                properties[f"{name}.deserializer"] = options[option]
        properties |= key_values("--property", options["formatter_properties"])
        return formatter(options["formatter_name"], properties, lambda line: click.echo(line, err=True))


async def _consume(
    kafka: "Kafka",
    consumption: "Consumption",
    group: str | None,
    arguments: "ClientArguments",
    options: Mapping[str, Any],
) -> None:
    from ottla.client import EARLIEST, EXPLICIT, LATEST

    settings = dict(arguments.options)
    reset = arguments.own["auto.offset.reset"]
    settings["on_offset_lost"] = reset
    source: Group[bytes, bytes] | Reader[bytes, bytes]
    if options["partition"] is not None or options["exit_at_end"]:
        for name in (*_GROUP_ONLY, "commit_interval"):
            settings.pop(name, None)
        start = _start(options)
        if isinstance(start, str):
            settings["start"] = EARLIEST if start == "earliest" else LATEST
        else:
            settings["start"] = start
        if options["partition"] is not None:
            settings["partitions"] = [options["partition"]]
        if options["exit_at_end"]:
            settings["stop"] = LATEST
        async with kafka.reader(await _topics(kafka, options), **settings) as source:
            await consumption.run(source)
        return
    commits = arguments.own.get("enable.auto.commit", group is not None)
    named = group or f"console-consumer-{random.Random().randrange(100_000)}"
    topics = options["topic"] or _pattern(options)
    async with kafka.group(named, topics, start=reset, done=EXPLICIT, commits=commits, **settings) as source:
        await consumption.run(source)


def _pattern(options: Mapping[str, Any]) -> "re.Pattern[str]":
    text = options["include"] or options["whitelist"]
    try:
        return re.compile(text)
    except re.error as error:
        raise CommandError(f"--include {text!r} is no regular expression: {error}") from None


async def _topics(kafka: "Kafka", options: Mapping[str, Any]) -> list[str]:
    """Return the topics to read without a group: the named one, or those that match now."""
    if options["topic"] is not None:
        return [options["topic"]]
    pattern = _pattern(options)
    refresh = kafka.context.refresh
    refresh.pin_all()
    try:
        await refresh.wait_update()
        topics = kafka.context.metadata.topics.items()
        found = sorted(name for name, topic in topics if not topic.is_internal and pattern.fullmatch(name))
    finally:
        refresh.unpin_all()
    if not found:
        raise CommandError(f"no topic matches {pattern.pattern!r}")
    return found
