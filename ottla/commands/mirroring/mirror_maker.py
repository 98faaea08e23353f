"""``ottla mirror-maker``: kafka-mirror-maker's flags, and what its users moved on for."""

import importlib
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.terminal.clients import read_arguments
from ottla.commands.terminal.connecting import client_settings
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from ottla.client_properties import ClientArguments
    from ottla.mirror.flow import FlowSettings, MirrorFlow
    from ottla.mirror.forwarding import Handler
    from ottla.mirror.selection import Selection

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_READER_ARGUMENTS = ("min_bytes", "max_wait", "max_bytes", "partition_bytes", "check_crcs", "isolation")
_INTERRUPTED = 130


@click.command("mirror-maker")
@click.option(
    "--consumer.config",
    "consumer_config",
    required=True,
    type=_FILE,
    help="The source: a consumer's properties.",
)
@click.option(
    "--producer.config",
    "producer_config",
    required=True,
    type=_FILE,
    help="The target: a producer's properties.",
)
@click.option(
    "--include", "--whitelist", "include", multiple=True, metavar="REGEX,...", help="Topics to mirror."
)
@click.option(
    "--exclude", "--blacklist", "exclude", multiple=True, metavar="REGEX,...", help="... but not these."
)
@click.option(
    "--num.streams", "streams", type=click.IntRange(min=1), default=1, help="Members of the source's group."
)
@click.option(
    "--offset.commit.interval.ms",
    "commit_interval_ms",
    type=click.IntRange(min=1),
    default=60_000,
    show_default=True,
    help="How often positions are committed, without transactions.",
)
@click.option(
    "--abort.on.send.failure",
    "abort_on_send_failure",
    type=bool,
    default=True,
    show_default=True,
    help="End where the target refuses a record; false counts it and goes on.",
)
@click.option("--message.handler", "handler", metavar="MODULE:FUNCTION", help="Makes records of each record.")
@click.option("--message.handler.args", "handler_arguments", metavar="TEXT", help="Its second argument.")
@click.option("--consumer.rebalance.listener", "listener", help="Refused: Java cannot be loaded here.")
@click.option("--rebalance.listener.args", "listener_arguments", help="Likewise.")
@click.option("--new.consumer", "new_consumer", is_flag=True, help="Accepted: there is no other.")
@click.option(
    "--exactly-once", is_flag=True, help="Copy with transactions at the target: nothing comes twice."
)
@click.option(
    "--transaction-interval-ms",
    type=click.IntRange(min=10),
    default=500,
    show_default=True,
    help="... so long.",
)
@click.option("--source-alias", default="source", show_default=True, help="What the source is called.")
@click.option("--target-alias", default="target", show_default=True, help="What the target is called.")
@click.option(
    "--naming",
    type=click.Choice(["identity", "prefix"]),
    default="identity",
    show_default=True,
    help="Topics keep their names, or are called <source alias>.<topic>.",
)
@click.option("--groups", multiple=True, metavar="REGEX,...", help="Groups to translate; all by default.")
@click.option(
    "--sync-group-offsets/--no-sync-group-offsets", default=True, help="Set groups' offsets at the target."
)
@click.option(
    "--checkpoints/--no-checkpoints", default=True, help="Write MirrorMaker 2's syncs and checkpoints."
)
@click.option(
    "--sync-topics/--no-sync-topics", default=True, help="Create topics and keep their settings in step."
)
@click.option(
    "--sync-acls", is_flag=True, help="Add the access rules of topics at the target, but for writing."
)
@click.option(
    "--sync-quotas", is_flag=True, help="Set the quotas of users, clients and addresses at the target."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    help="Of the copies of topics; the target's default where it is not given.",
)
@click.option(
    "--internal-replication-factor",
    type=click.IntRange(1, 32767),
    help="Of syncs, checkpoints and heartbeats; 3 by default, or fewer where a cluster has fewer live brokers.",
)
@click.option(
    "--refresh-interval-s",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="For topics.",
)
@click.option(
    "--groups-interval-s", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="For groups."
)
@click.option(
    "--offset-lag-max", type=click.IntRange(min=0), default=100, show_default=True, help="Of offset syncs."
)
@click.option("--throttle", type=click.FloatRange(min=1), metavar="BYTES", help="Bytes a second, at most.")
@click.option("--exit-at-end", is_flag=True, help="End where the source's partitions ended at the start.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be done to the target's topics, and change nothing."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve metrics for Prometheus on this port."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan or the result as JSON.")
@click.option("--verbose", is_flag=True, help="Log what is done to topics.")
def command(**options: Any) -> None:
    """Copy topics from one cluster to another, with their settings and the positions of their groups."""
    from ottla.client_properties import consumer_arguments, producer_arguments
    from ottla.mirror.selection import Selection, compile_names

    if options["listener"] is not None or options["listener_arguments"] is not None:
        raise CommandError("rebalance listeners are Java classes, which cannot be loaded here")
    if not options["include"]:
        raise click.UsageError("Missing option '--include'.")
    if options["exactly_once"] and options["streams"] > 1:
        raise CommandError("--exactly-once has one stream: --num.streams goes without it")
    logging.basicConfig(
        level=logging.INFO if options["verbose"] else logging.WARNING, format="%(asctime)s %(message)s"
    )
    source = _Cluster.read(options["consumer_config"], consumer_arguments, "consumer.config")
    target = _Cluster.read(options["producer_config"], producer_arguments, "producer.config")
    with failing_on(ValueError):
        selection = Selection(
            compile_names(options["include"]),
            compile_names(options["exclude"]) if options["exclude"] else None,
            compile_names(options["groups"]) if options["groups"] else compile_names([".*"]),
            options["naming"],
            options["source_alias"],
            options["target_alias"],
        )
    settings = _settings(options, source.arguments, target.arguments)
    handler = None
    if options["handler"] is not None:
        handler = load_handler(options["handler"], options["handler_arguments"])
    _Run(options, source, target, selection, settings, handler).run()


@dataclass(frozen=True, slots=True)
class _Cluster:
    """One side of the flow."""

    arguments: "ClientArguments"

    @classmethod
    def read(
        cls,
        path: Path,
        read: "Callable[[Mapping[str, str], Callable[[], int]], ClientArguments]",
        option: str,
    ) -> "_Cluster":
        with failing_on(OSError, ValueError):
            properties = client_settings(path)
        properties.setdefault("client.id", "ottla-mirror-maker")
        arguments = read_arguments(properties, read)
        if not arguments.bootstrap_servers:
            raise CommandError(f"--{option} {path}: bootstrap.servers is missing")
        return cls(arguments)


def _settings(
    options: Mapping[str, Any], source: "ClientArguments", target: "ClientArguments"
) -> "FlowSettings":
    """Return the flow's settings.

    Raises:
        CommandError: group.id is missing, or a property does not go with a mirror.
    """
    from ottla.client import EARLIEST
    from ottla.mirror.copying import CopySettings
    from ottla.mirror.flow import FlowSettings

    group = source.own.get("group.id")
    if not group:
        raise CommandError("--consumer.config: group.id is missing: it has the mirror's positions")
    if "transactional.id" in target.own:
        raise CommandError(
            "--producer.config: transactional.id is the mirror's own affair: say --exactly-once"
        )
    if target.options.get("acks", "all") != "all" and options["exactly_once"]:
        raise CommandError("--producer.config: --exactly-once needs acks=all")
    copying = CopySettings(
        group=group,
        start=source.own.get("auto.offset.reset") or EARLIEST,
        exactly_once=options["exactly_once"],
        transaction_interval=options["transaction_interval_ms"] / 1000,
        commit_interval=options["commit_interval_ms"] / 1000,
        streams=options["streams"],
        until_end=options["exit_at_end"],
        producer=dict(target.options),
        consumer={name: source.options[name] for name in _READER_ARGUMENTS if name in source.options},
    )
    return FlowSettings(
        copying=copying,
        abort_on_failure=options["abort_on_send_failure"],
        throttle=options["throttle"],
        refresh_interval=options["refresh_interval_s"],
        groups_interval=options["groups_interval_s"],
        keeps_topics=options["sync_topics"],
        keeps_groups=options["sync_group_offsets"],
        checkpoints=options["checkpoints"],
        offset_lag_max=options["offset_lag_max"],
        replication_factor=options["replication_factor"] or -1,
        internal_replication_factor=options["internal_replication_factor"],
        keeps_acls=options["sync_acls"],
        keeps_quotas=options["sync_quotas"],
    )


def load_handler(name: str, argument: str | None) -> "Handler":
    """Import a message handler: a function of a record, and of the argument where there is one.

    Raises:
        CommandError: There is none of that name.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon:
        raise CommandError(
            f"the message handler {name} is Java, which cannot be loaded here: say MODULE:FUNCTION"
        )
    with failing_on(ImportError):
        module = importlib.import_module(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise CommandError(f"the module {module_name} has no function {function_name}")
    if argument is None:
        found: Handler = function
        return found
    return lambda record: function(record, argument)


class _Run:
    """One run of the command."""

    def __init__(
        self,
        options: Mapping[str, Any],
        source: _Cluster,
        target: _Cluster,
        selection: "Selection",
        settings: "FlowSettings",
        handler: "Handler | None",
    ) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._selection = selection
        self._settings = settings
        self._handler = handler
        self._flow: MirrorFlow | None = None
        self._interrupted = False

    def run(self) -> None:
        """Mirror; print the result; exit with 130 after Ctrl-C.

        Raises:
            CommandError: The flow failed.
        """
        import trio

        from ottla.client import ClientError

        expected = (
            ClientError,
            ValueError,
            OSError,
            CommandError,
        )
        try:
            trio.run(self._main)
        except expected as error:
            raise CommandError(str(error)) from None
        except BaseExceptionGroup as group:
            known, unexpected = group.split(expected)
            if unexpected is not None or known is None:
                raise
            raise CommandError("; ".join(dict.fromkeys(_texts(known)))) from None
        if self._flow is not None and not self._options["dry_run"]:
            click.echo(self._result())
        if self._interrupted:
            raise click.exceptions.Exit(_INTERRUPTED)

    async def _main(self) -> None:
        import trio

        from ottla.client import connect
        from ottla.commands.terminal.interruption import on_interrupt
        from ottla.mirror.flow import MirrorFlow, describe
        from timing.clock import SystemClock

        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:

            def stop() -> None:
                self._interrupted = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(on_interrupt, stop)
            source, target = [
                await stack.enter_async_context(
                    connect(side.arguments.bootstrap_servers, **side.arguments.connection)
                )
                for side in (self._source, self._target)
            ]
            self._flow = flow = MirrorFlow(
                source,
                target,
                self._selection,
                self._settings,
                SystemClock(),
                self._handler,
            )
            if self._options["dry_run"]:
                topics, changes = await flow.plan()
                if self._options["as_json"]:
                    changed = {each.topic: str(each) for each in changes if not each.is_nothing}
                    click.echo(json.dumps({"topics": topics, "changes": changed}))
                else:
                    click.echo("\n".join(describe(topics, changes)))
            else:
                nursery.start_soon(self._show_progress, flow)
                self._serve_metrics(flow)
                await flow.run()
            nursery.cancel_scope.cancel()

    async def _show_progress(self, flow: "MirrorFlow") -> None:
        from ottla.commands.terminal.progress import ProgressLine

        line = ProgressLine(
            lambda: flow.counters.records, "copied", more=lambda: f", {flow.counters.total_lag:,} behind"
        )
        try:
            await line.run()
        finally:
            line.clear()

    def _serve_metrics(self, flow: "MirrorFlow") -> None:
        if self._options["metrics_port"] is None:
            return
        from prometheus_client import start_http_server

        from ottla.commands.mirroring.mirror_metrics import registry

        with failing_on(OSError):
            server, _ = start_http_server(
                self._options["metrics_port"], "127.0.0.1", registry(flow.counters, self._selection)
            )
        click.echo(f"metrics: http://127.0.0.1:{server.server_port}/metrics", err=True)

    def _result(self) -> str:
        assert self._flow is not None
        counters = self._flow.counters
        if self._options["as_json"]:
            names = ("records", "byte_count", "dropped", "transactions", "aborted", "checkpoints", "groups")
            return json.dumps(
                {**{name: getattr(counters, name) for name in names}, "lag": counters.total_lag}
            )
        return (
            f"copied {counters.records} records ({counters.byte_count} bytes), dropped {counters.dropped}; "
            f"{counters.transactions} transactions, {counters.checkpoints} checkpoints"
        )


def _texts(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [text for each in error.exceptions for text in _texts(each)]
    return [error.message if isinstance(error, CommandError) else str(error)]
