"""``ottla producer-perf-test``: kafka-producer-perf-test's flags and lines, on our client library."""

import json
import random
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.performance.limits import limited_by
from ottla.commands.performance.metrics_table import metrics_lines
from ottla.commands.performance.production_statistics import ProductionStatistics
from ottla.commands.performance.several_values import SeveralValues
from ottla.commands.terminal.clients import INTERRUPTED, merged_properties, read_arguments, run_client
from ottla.commands.terminal.failure import CommandError
from timing.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client import ClientError, Kafka, Producer, Transaction
    from ottla.client.producer_batch import Acknowledged
    from ottla.client_properties import ClientArguments

_PAYLOADS: Final = 1024
"""Random payloads that are made once and sent in turn: making one for each record would be what is measured."""
_PIECE: Final = 256
"""Records that are handed to the producer at a time."""
_BEAT_S: Final = 0.002


@click.command("producer-perf-test", cls=SeveralValues)
@click.option("--topic", required=True, help="The topic to produce to.")
@click.option("--num-records", required=True, type=click.IntRange(min=1), help="How many records.")
@click.option("--record-size", type=click.IntRange(min=1), help="Bytes of a record's value.")
@click.option(
    "--payload-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of values, one of which is chosen at random for each record.",
)
@click.option(
    "--payload-delimiter", default="\\n", show_default=True, help="What stands between two of them."
)
@click.option("--payload-monotonic", is_flag=True, help="Values are numbers that count up.")
@click.option("--throughput", required=True, type=float, help="Records a second; -1 for as many as possible.")
@click.option(
    "--producer-props",
    multiple=True,
    metavar="NAME=VALUE ...",
    help="A producer's properties; bootstrap.servers too.",
)
@click.option(
    "--producer.config",
    "--command-config",
    "producer_config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of such properties.",
)
@click.option("--print-metrics", is_flag=True, help="Print the client's metrics at the end.")
@click.option(
    "--transactional-id",
    default="performance-producer-default-transactional-id",
    show_default=True,
    help="With --transaction-duration-ms.",
)
@click.option(
    "--transaction-duration-ms",
    type=click.IntRange(min=0),
    default=0,
    help="Commit so often; 0: no transactions.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the total as an object, and no windows.")
def command(**options: Any) -> None:
    """Measure how fast records are produced."""
    from ottla.client_properties import producer_arguments

    given = [
        options["record_size"] is not None,
        options["payload_file"] is not None,
        options["payload_monotonic"],
    ]
    if sum(given) != 1:
        raise click.UsageError(
            "exactly one of --record-size, --payload-file and --payload-monotonic is needed"
        )
    if not options["producer_props"] and options["producer_config"] is None:
        raise click.UsageError("Either --producer-props or --producer.config must be specified.")
    for text in options["producer_props"]:
        if text.count("=") < 1:
            raise CommandError(f"Invalid property: {text}")
    if options["throughput"] == 0:
        raise CommandError("--throughput 0 would never send anything: -1 is as many as possible")
    properties = merged_properties(options["producer_config"], "--producer-props", options["producer_props"])
    properties.setdefault("client.id", "perf-producer-client")
    arguments = read_arguments(properties, producer_arguments)
    if not arguments.bootstrap_servers:
        raise CommandError("bootstrap.servers is missing in --producer-props")
    test = _Test(options, arguments)
    _, interrupted = run_client(arguments.bootstrap_servers, arguments.connection, test.run)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)
    if test.failures:
        raise CommandError(f"{test.failures} records were not acknowledged")


def _payloads(options: dict[str, Any]) -> Iterator[bytes]:
    """Return values without end.

    Raises:
        CommandError: The file holds none.
    """
    if options["payload_monotonic"]:
        return (b"%d" % number for number in count())
    source = random.Random(0)
    if options["payload_file"] is not None:
        path: Path = options["payload_file"]
        delimiter = "\n" if options["payload_delimiter"] == "\\n" else options["payload_delimiter"]
        click.echo(f"Reading payloads from: {path.absolute()}", err=options["as_json"])
        values = path.read_bytes().split(delimiter.encode())
        while values and not values[-1]:
            values.pop()
        if not values:
            raise CommandError("File does not exist or empty file provided.")
        click.echo(f"Number of messages read: {len(values)}", err=options["as_json"])
        return (source.choice(values) for _ in count())
    size: int = options["record_size"]
    letters = bytes(range(65, 91)) * 9
    table = bytes(letters[each % len(letters)] for each in range(256))
    made = [source.randbytes(size).translate(table) for _ in range(min(_PAYLOADS, options["num_records"]))]
    return (each for _ in count() for each in made)


class _Test:
    """One measurement.

    Attributes:
        failures: How many records were not acknowledged.
    """

    def __init__(self, options: dict[str, Any], arguments: "ClientArguments") -> None:
        self._topic: str = options["topic"]
        self._total: int = options["num_records"]
        self._throughput: float = options["throughput"]
        self._options = options
        self._arguments = arguments
        self._payloads = _payloads(options)
        self._clock = SystemClock()
        self.failures = 0
        self._statistics = ProductionStatistics(0, self._total)

    async def run(self, kafka: "Kafka") -> None:
        """Send everything, and print."""
        from ottla.client import DeliveryErrors

        await kafka.context.refresh.topic(self._topic, 30.0)
        begin_ms, begin_processor_s = self._clock.wall_ms(), time.process_time()
        self._statistics = ProductionStatistics(begin_ms, self._total)
        settings = {**self._arguments.options, "on_acknowledged": [self._acknowledged]}
        try:
            if self._options["transaction_duration_ms"]:
                await self._send_in_transactions(kafka, settings)
            else:
                async with kafka.producer(**settings) as out:
                    await self._send(out, self._total, None)
        except DeliveryErrors:
            pass  # each was printed as it failed
        now_ms = self._clock.wall_ms()
        self.failures = int(kafka.metrics()["record-error-total"])
        elapsed_s = (now_ms - begin_ms) / 1000
        limit = limited_by(
            rate=self._statistics.count / max(elapsed_s, 0.001),
            asked=self._throughput if self._throughput > 0 else None,
            processor_s=time.process_time() - begin_processor_s,
            elapsed_s=elapsed_s,
        )
        if self._options["as_json"]:
            click.echo(json.dumps({**self._statistics.as_json(now_ms), "limited_by": limit}))
        else:
            click.echo(self._statistics.total_line(now_ms))
            click.echo(f"limited by: {limit}", err=True)
        if self._options["print_metrics"]:
            client_id = self._arguments.connection["client_id"]
            click.echo("\n".join(metrics_lines("producer-metrics", client_id, kafka.metrics())))

    async def _send_in_transactions(self, kafka: "Kafka", settings: dict[str, Any]) -> None:
        sent = 0
        timeout_s = self._arguments.own.get("transaction.timeout.ms", 60.0)
        async with kafka.producer(
            transactional_id=self._options["transactional_id"], transaction_timeout=timeout_s, **settings
        ) as out:
            while sent < self._total:
                async with out.transaction() as transaction:
                    until_ms = self._clock.wall_ms() + self._options["transaction_duration_ms"]
                    sent += await self._send(transaction, self._total - sent, until_ms)

    async def _send(self, out: "Producer | Transaction", total: int, until_ms: int | None) -> int:
        """Send records, at the rate that was asked for; return how many."""
        import trio

        begin = trio.current_time()
        sent = 0
        while sent < total and (until_ms is None or sent == 0 or self._clock.wall_ms() < until_ms):
            allowed = min(_PIECE, total - sent)
            if self._throughput > 0:
                due = int((trio.current_time() - begin) * self._throughput) + 1 - sent
                if due < 1:
                    wait = (sent + 1) / self._throughput - (trio.current_time() - begin)
                    await trio.sleep(max(wait, _BEAT_S))
                    continue
                allowed = min(allowed, due)
            await out.post_batch(self._topic, list(islice(self._payloads, allowed)))
            sent += allowed
        return sent

    def _acknowledged(self, places: "Acknowledged", error: "ClientError | None") -> None:
        if error is not None:
            click.echo(f"error: {error}", err=True)
            return
        line = self._statistics.acknowledged(places.sent_ms, places.byte_count, self._clock.wall_ms())
        if line is not None and not self._options["as_json"]:
            click.echo(line)
