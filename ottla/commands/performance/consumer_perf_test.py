"""``ottla consumer-perf-test``: kafka-consumer-perf-test's flags and rows, on our client library."""

import json
import random
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.performance.consumption_statistics import DETAILED_HEADER, HEADER, ConsumptionStatistics
from ottla.commands.performance.date_format import formatted
from ottla.commands.performance.limits import limited_by
from ottla.commands.performance.metrics_table import metrics_lines
from ottla.commands.terminal.clients import INTERRUPTED, merged_properties, read_arguments, run_client
from ottla.commands.terminal.failure import CommandError, failing_on
from timing.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client import Batch, Group, Kafka
    from ottla.client_properties import ClientArguments


@click.command("consumer-perf-test")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The older name of --bootstrap-server.")
@click.option("--topic", required=True, help="The topic to consume.")
@click.option("--messages", required=True, type=click.IntRange(min=1), help="How many records.")
@click.option("--group", help="The group; one of a random name by default.")
@click.option(
    "--fetch-size", type=click.IntRange(min=1), default=1_048_576, help="Bytes of a partition in a fetch."
)
@click.option("--from-latest", is_flag=True, help="Begin at the end where nothing is committed.")
@click.option(
    "--timeout", "timeout_ms", type=click.IntRange(min=1), default=10_000, help="The longest pause in ms."
)
@click.option(
    "--reporting-interval", type=click.IntRange(min=1), default=5_000, help="Between two rows, in ms."
)
@click.option("--show-detailed-stats", is_flag=True, help="A row for each interval, and none for all.")
@click.option("--hide-header", is_flag=True, help="No header row.")
@click.option(
    "--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", show_default=True, help="As SimpleDateFormat."
)
@click.option("--print-metrics", is_flag=True, help="Print the client's metrics at the end.")
@click.option("--socket-buffer-size", type=int, help="Accepted; the kernel sizes its buffers.")
@click.option("--threads", type=int, help="Deprecated and ignored.")
@click.option("--num-fetch-threads", type=int, help="Deprecated and ignored.")
@click.option(
    "--consumer.config",
    "--command-config",
    "consumer_config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A consumer's properties file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the total as an object, and nothing else.")
def command(**options: Any) -> None:
    """Measure how fast records are consumed."""
    from ottla.client_properties import consumer_arguments

    bootstrap = options["bootstrap_server"] or options["broker_list"]
    if bootstrap is None:
        raise click.UsageError("Missing option '--bootstrap-server'.")
    with failing_on(ValueError):
        formatted(options["date_format"], datetime(2000, 1, 1))
    if options["threads"] is not None or options["num_fetch_threads"] is not None:
        click.echo(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test",
            err=options["as_json"],
        )
    properties = merged_properties(options["consumer_config"], "--consumer.config", ())
    properties.setdefault("client.id", "perf-consumer-client")
    properties["max.partition.fetch.bytes"] = str(options["fetch_size"])
    properties["auto.offset.reset"] = "latest" if options["from_latest"] else "earliest"
    properties["check.crcs"] = "false"
    test = _Test(options, read_arguments(properties, consumer_arguments))
    _, interrupted = run_client(bootstrap, test.arguments.connection, test.run)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


class _Test:
    """One measurement."""

    def __init__(self, options: dict[str, Any], arguments: "ClientArguments") -> None:
        self.arguments = arguments
        self._options = options
        self._clock = SystemClock()

    def _show_time(self, wall_ms: int) -> str:
        moment = datetime.fromtimestamp(wall_ms / 1000).astimezone()
        return formatted(self._options["date_format"], moment)

    def _print(self, line: str) -> None:
        if not self._options["as_json"]:
            click.echo(line)

    async def run(self, kafka: "Kafka") -> None:
        """Consume, and print.

        Raises:
            CommandError: No partition was assigned within the timeout.
        """
        import trio

        options = self._options
        if not options["hide_header"]:
            self._print(DETAILED_HEADER if options["show_detailed_stats"] else HEADER)
        begin_processor_s = time.process_time()
        statistics = ConsumptionStatistics(self._clock.wall_ms())
        group_id = options["group"] or f"perf-consumer-{random.Random().randrange(100_000)}"
        start = self.arguments.own["auto.offset.reset"]
        settings = {**self.arguments.options, "on_offset_lost": start}
        async with kafka.group(group_id, options["topic"], start=start, **settings) as group:
            with trio.move_on_after(max(60.0, options["timeout_ms"] / 1000)) as scope:
                await group.wait_assigned()
            if scope.cancelled_caught:
                raise CommandError(f"group {group_id!r}: no partition of {options['topic']!r} was assigned")
            statistics.joined(self._clock.wall_ms())
            await self._consume(group, statistics)
            end_ms, processor_s = self._clock.wall_ms(), time.process_time() - begin_processor_s
        elapsed_s = (end_ms - statistics.begin_ms) / 1000
        limit = limited_by(rate=0.0, asked=None, processor_s=processor_s, elapsed_s=elapsed_s)
        if options["as_json"]:
            click.echo(json.dumps({**statistics.as_json(end_ms), "limited_by": limit}))
            return
        if not options["show_detailed_stats"]:
            click.echo(statistics.total_row(end_ms, self._show_time))
        click.echo(f"limited by: {limit}", err=True)
        if options["print_metrics"]:
            client_id = self.arguments.connection["client_id"]
            click.echo("\n".join(metrics_lines("consumer-fetch-manager-metrics", client_id, kafka.metrics())))

    async def _consume(self, group: "Group[bytes, bytes]", statistics: ConsumptionStatistics) -> None:
        import trio

        options = self._options
        while statistics.record_count < options["messages"]:
            batch: Batch[bytes, bytes] | None = None
            with trio.move_on_after(options["timeout_ms"] / 1000):
                batch = await anext(group)
            if batch is None:
                self._print(
                    "WARNING: Exiting before consuming the expected number of messages: timeout "
                    f"({options['timeout_ms']} ms) exceeded. You can use the --timeout option to increase the timeout."
                )
                return
            byte_count = sum(len(each) for each in batch.values() if each is not None)
            byte_count += sum(len(each) for each in batch.keys() if each is not None)  # noqa: SIM118 - a list
            statistics.consumed(len(batch), byte_count)
            row = statistics.window_row(self._clock.wall_ms(), options["reporting_interval"], self._show_time)
            if row is not None and options["show_detailed_stats"]:
                self._print(row)
