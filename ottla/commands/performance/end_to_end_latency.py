"""``ottla end-to-end-latency``: kafka-e2e-latency's arguments and lines: one record at a time, sent and read back."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.clients import INTERRUPTED, read_arguments, run_client
from ottla.commands.terminal.connecting import client_settings, with_admin
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from ottla.client import Kafka
    from ottla.client.admin import Admin

_POLL_TIMEOUT_S: Final = 60.0


@click.command("end-to-end-latency")
@click.argument("broker_list")
@click.argument("topic")
@click.argument("num_messages", type=click.IntRange(min=1))
@click.argument("producer_acks", type=click.Choice(["1", "all"]))
@click.argument("message_size_bytes", type=click.IntRange(min=1))
@click.argument(
    "properties_file",
    required=False,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
)
@click.option("--json", "as_json", is_flag=True, help="Print an object at the end, and nothing else.")
def command(
    broker_list: str,
    topic: str,
    num_messages: int,
    producer_acks: str,
    message_size_bytes: int,
    properties_file: Path | None,
    as_json: bool,
) -> None:
    """Measure the time from sending a record to having read it."""
    from ottla.client_properties import consumer_arguments, producer_arguments

    with failing_on(OSError, ValueError):
        properties = client_settings(properties_file)
    producing = read_arguments(properties, producer_arguments)
    consuming = read_arguments(properties, consumer_arguments)
    _create_if_missing(broker_list, topic, properties_file, as_json=as_json)
    settings = {**producing.options, "linger": 0.0, "acks": "all" if producer_acks == "all" else 1}

    async def body(kafka: "Kafka") -> list[float]:
        return await _measure(
            kafka, topic, num_messages, message_size_bytes, settings, consuming.options, show=not as_json
        )

    latencies, interrupted = run_client(broker_list, producing.connection, body)
    if interrupted or latencies is None:
        raise click.exceptions.Exit(INTERRUPTED)
    click.echo(json.dumps(_summary(latencies)) if as_json else "\n".join(result_lines(latencies)))


def _create_if_missing(broker_list: str, topic: str, properties: Path | None, *, as_json: bool) -> None:
    async def body(admin: "Admin") -> None:
        from ottla.client.admin import NewTopic

        if topic in await admin.list_topics(internal=True):
            return
        click.echo(
            f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1',
            err=as_json,
        )
        await admin.create_topics([NewTopic(topic, 1, 1)])

    with_admin("end-to-end-latency", broker_list, 30.0, properties, body)


async def _measure(
    kafka: "Kafka",
    topic: str,
    count: int,
    size: int,
    producing: dict[str, Any],
    consuming: dict[str, Any],
    *,
    show: bool,
) -> list[float]:
    """Return the latency of each record, in milliseconds.

    Raises:
        CommandError: A record does not come back, or another one comes.
    """
    import trio

    from ottla.client import LATEST
    from ottla.client.offset_lookup import look_up
    from wire.types import TopicPartition

    source = random.Random(0)
    latencies = []
    reading = {
        name: consuming[name] for name in ("isolation", "partition_bytes", "max_bytes") if name in consuming
    }
    found = await kafka.context.refresh.topic(topic, 30.0)
    places = [TopicPartition(topic, number) for number in range(len(found.partitions))]
    ends = await look_up(kafka.context, dict.fromkeys(places, LATEST), 0)
    starts = {place: offset for place, (offset, _) in ends.items()}
    async with (
        kafka.producer(**producing) as out,
        kafka.reader(topic, start=starts, **reading) as reader,
    ):
        for number in range(count):
            message = bytes([65 + source.randrange(26)]) * size
            begin = trio.current_time()
            await out.send(topic, message)
            with trio.move_on_after(_POLL_TIMEOUT_S) as scope:
                batch = await anext(reader)
            if scope.cancelled_caught:
                raise CommandError(f"a record did not come back within {_POLL_TIMEOUT_S:.0f} s")
            elapsed_ms = (trio.current_time() - begin) * 1000
            values = batch.values()
            if len(values) != 1:
                raise CommandError(f"Only one result was expected during this test. We found [{len(values)}]")
            if values[0] != message:
                raise CommandError("the record that was read is not the one that was sent")
            if show and number % 1000 == 0:
                click.echo(f"{number}\t{elapsed_ms}")
            latencies.append(elapsed_ms)
    return latencies


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value that a part of the values, in order, are below."""
    return ordered[int(len(ordered) * part)]


def result_lines(latencies: Sequence[float]) -> list[str]:
    """Return the lines that end the test."""
    ordered = sorted(latencies)
    p50, p99, p999 = (int(percentile(ordered, part)) for part in (0.5, 0.99, 0.999))
    return [
        f"Avg latency: {sum(latencies) / len(latencies):.4f} ms",
        f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
    ]


def _summary(latencies: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(latencies)
    return {
        "records": len(latencies),
        "latency_ms_average": round(sum(latencies) / len(latencies), 4),
        "p50_ms": round(percentile(ordered, 0.5), 4),
        "p95_ms": round(percentile(ordered, 0.95), 4),
        "p99_ms": round(percentile(ordered, 0.99), 4),
        "p999_ms": round(percentile(ordered, 0.999), 4),
        "latency_ms_max": round(ordered[-1], 4),
    }
