"""``ottla console-producer``: kafka-console-producer's flags; lines of the standard input become records."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.console.line_readers import CsvReader, JsonReader, LineReader, RecordReader
from ottla.commands.console.records import LineError
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
    from ottla.client import ClientError, Kafka, Producer
    from ottla.client.producer_batch import Acknowledged
    from ottla.commands.console.standard_input import StandardInput

_JAVA_READERS: Final = frozenset(
    {"kafka.tools.ConsoleProducer$LineMessageReader", "org.apache.kafka.tools.LineMessageReader"}
)
_READERS: Final = ("lines", "json", "csv")
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# Each flag that has a property of its own: a flag that is given wins over --producer-property and the file.
_FLAGS: Final = {
    "request_required_acks": "acks",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "linger_ms": "linger.ms",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "batch_size": "batch.size",
    "max_partition_memory_bytes": "batch.size",
    "compression_codec": "compression.type",
}


@click.command("console-producer")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to.")
@click.option("--broker-list", metavar="HOST:PORT,...", help="The older name of --bootstrap-server.")
@click.option("--topic", required=True, help="The topic to produce to.")
@click.option("--sync", is_flag=True, help="Send one record at a time, and wait for each acknowledgement.")
@click.option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    type=click.Choice(_CODECS),
    help="How to compress; gzip where no codec is named.",
)
@click.option(
    "--request-required-acks", metavar="all|1|0", help="Acknowledgements to wait for: all by default."
)
@click.option(
    "--request-timeout-ms", type=click.IntRange(min=1), help="How long a broker may take to answer."
)
@click.option("--message-send-max-retries", type=click.IntRange(min=0), help="Retries, as a bound of time.")
@click.option("--retry-backoff-ms", type=click.IntRange(min=0), help="The first wait before a retry.")
@click.option(
    "--timeout", "linger_ms", type=click.IntRange(min=0), help="How long a record waits for others."
)
@click.option("--metadata-expiry-ms", type=click.IntRange(min=1), help="How old metadata grow.")
@click.option("--max-block-ms", type=click.IntRange(min=0), help="How long a topic may be unknown.")
@click.option(
    "--max-memory-bytes", type=click.IntRange(min=1), help="Bytes that may wait to be acknowledged."
)
@click.option("--batch-size", type=click.IntRange(min=1), help="The most bytes of a batch.")
@click.option("--max-partition-memory-bytes", type=click.IntRange(min=1), help="Likewise; it wins.")
@click.option("--socket-buffer-size", type=int, help="Accepted; the kernel sizes its buffers.")
@click.option("--line-reader", default="lines", show_default=True, help="How to read: lines, json or csv.")
@click.option("--json", "as_json", is_flag=True, help="The same as --line-reader json.")
@click.option(
    "--property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the line reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
    "headers.key.separator, ignore.error, null.marker.",
)
@click.option(
    "--reader-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of such properties.",
)
@click.option(
    "--producer-property", multiple=True, metavar="NAME=VALUE", help="A producer's property; repeatable."
)
@click.option(
    "--producer.config",
    "--command-config",
    "producer_config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of such properties.",
)
def command(topic: str, **options: Any) -> None:
    """Send each line of the standard input as a record."""
    from ottla.client_properties import producer_arguments

    bootstrap = options["bootstrap_server"] or options["broker_list"]
    if bootstrap is None:
        raise click.UsageError("Missing option '--bootstrap-server'.")
    reader = _reader(options)
    properties = merged_properties(
        options["producer_config"], "--producer-property", options["producer_property"]
    )
    properties.setdefault("client.id", "console-producer")
    properties |= {name: str(options[flag]) for flag, name in _FLAGS.items() if options[flag] is not None}
    arguments = read_arguments(properties, producer_arguments)
    if "transactional.id" in arguments.own:
        raise CommandError("transactional.id: the console producer sends without transactions")
    production = _Production(topic, reader, sync=options["sync"])
    retries = options["message_send_max_retries"]
    if retries is not None:
        arguments.options["delivery_timeout"] = _time_for(retries, arguments.connection, arguments.options)

    async def body(kafka: "Kafka") -> None:
        await production.run(kafka, arguments.options)

    _, interrupted = run_client(bootstrap, arguments.connection, body, production.stop)
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)
    if production.failures:
        raise CommandError(f"{production.failures} records were not acknowledged")


def _time_for(retries: int, connection: dict[str, Any], options: dict[str, Any]) -> float:
    """Return how long so many retries take at most: the library bounds retries by time."""
    attempt = connection.get("request_timeout", 30.0) + connection.get("retry_backoff", 0.1)
    time_s: float = options.get("linger", 0.005) + (retries + 1) * attempt
    return time_s


def _reader(options: dict[str, Any]) -> RecordReader:
    name = "json" if options["as_json"] else options["line_reader"]
    if name in _JAVA_READERS:
        name = "lines"
    if name not in _READERS:
        raise CommandError(
            f"the line reader {name} is Java, which cannot be loaded here; there are {', '.join(_READERS)}"
        )
    with failing_on(OSError, ValueError):
        properties = client_settings(options["reader_config"])
        properties |= key_values("--property", options["reader_properties"])
        if name == "lines":
            return LineReader(properties)
    return JsonReader() if name == "json" else CsvReader()


class _Production:
    """Sends what stands in the standard input.

    Attributes:
        failures: How many records were not acknowledged.
    """

    def __init__(self, topic: str, reader: RecordReader, *, sync: bool) -> None:
        self._topic = topic
        self._reader = reader
        self._sync = sync
        self._prompts = sys.stdin.isatty() and sys.stdout.isatty()
        self.failures = 0
        self._source: StandardInput | None = None

    def stop(self) -> None:
        """Read no further; what was read is sent."""
        if self._source is not None:
            self._source.stop()

    async def run(self, kafka: "Kafka", options: dict[str, Any]) -> None:
        """Send until the input ends, and wait for the acknowledgements.

        Raises:
            CommandError: A line is no record; those before it are sent.
        """
        import trio

        from ottla.client import DeliveryErrors
        from ottla.commands.console.standard_input import StandardInput
        from ottla.commands.terminal.progress import ProgressLine

        self._source = source = StandardInput(self._prompt)
        progress = ProgressLine(
            lambda: int(kafka.metrics()["record-send-total"]), "sent", shown=False if self._prompts else None
        )
        broken: LineError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.run)
            try:
                async with kafka.producer(on_acknowledged=[self._acknowledged], **options) as out:
                    try:
                        await self._send_all(source, out)
                    except LineError as error:
                        broken = error
            except DeliveryErrors:
                pass  # each was printed as it failed
            nursery.cancel_scope.cancel()
        self.failures = int(kafka.metrics()["record-error-total"])
        progress.clear()
        if broken is not None:
            raise CommandError(str(broken))

    async def _send_all(self, source: "StandardInput", out: "Producer") -> None:
        reader, topic = self._reader, self._topic
        send = partial(_send_one, out) if self._sync else out.post
        async for lines in source:
            if reader.plain and not self._sync:
                await out.post_batch(topic, lines)
                continue
            for line in lines:
                record = reader.read(line)
                if record is None:
                    continue
                await send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp=record.timestamp,
                )
        if isinstance(reader, CsvReader) and reader.is_inside:
            raise LineError("the input ends within a quoted field")

    def _acknowledged(self, _: "Acknowledged", error: "ClientError | None") -> None:
        if error is not None:
            click.echo(f"error: {error}", err=True)

    def _prompt(self) -> None:
        if self._prompts:
            sys.stdout.write(">")
            sys.stdout.flush()


async def _send_one(out: "Producer", topic: str, value: bytes | None, **options: Any) -> None:
    """Send and wait; a refused record has been printed, and the next one is tried."""
    from ottla.client import ClientError

    try:
        await out.send(topic, value, **options)
    except ClientError as error:
        if error.topic is None:
            raise
