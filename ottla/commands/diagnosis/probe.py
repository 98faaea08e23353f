"""``ottla probe``: whether records get through, and how fast: produce, replicate, consume, commit, in a loop."""

import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.interruption import on_interrupt
from timing.clock import SystemClock

if TYPE_CHECKING:
    from rich.table import Table

    from ottla.client.admin import Admin
    from ottla.commands.diagnosis.probe_client import ProbeClient
    from ottla.commands.diagnosis.probe_loop import Latencies, ProbeResult
    from wire.types import Offset

TOPIC: Final = "ottla-probe"
_REFRESH_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.05
_LEADERS_TIMEOUT_S: Final = 30.0
"""How long leaders may take to be known before a probe begins."""
_FACTOR: Final = 3
REQUEST_TIMEOUT_S: Final = 30.0


@click.command("probe")
@cluster_options
@click.option("--topic", default=TOPIC, show_default=True, help="Created where it does not exist.")
@click.option("--group", default=TOPIC, show_default=True, help="The group that offsets are committed for.")
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to probe; 0 until interrupted.",
)
@click.option(
    "--interval-ms",
    type=click.FloatRange(min=1),
    default=100.0,
    show_default=True,
    help="Between two records of a partition.",
)
@click.option(
    "--record-size",
    type=click.IntRange(8, 900_000),
    default=100,
    show_default=True,
    help="Bytes of a record.",
)
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Send records through the cluster and time each step; fails where one is lost or none gets through."""

    async def body(admin: "Admin") -> "ProbeResult":
        return await _probe(admin, options, quiet=as_json)

    result = with_admin("probe", bootstrap_server, timeout_s, command_config, body)
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        _show(result)
    if result.lost or not result.acknowledged:
        raise click.exceptions.Exit(1)


async def _probe(admin: "Admin", options: dict[str, Any], *, quiet: bool) -> "ProbeResult":
    import trio

    from ottla.client.admin import NewTopic
    from ottla.commands.diagnosis.probe_client import ProbeClient
    from ottla.commands.diagnosis.probe_loop import Probe

    topic = options["topic"]
    if topic not in await admin.list_topics():
        # A partition of each broker's, so that all of them are probed.
        brokers = len((await admin.refresh()).brokers)
        await admin.create_topics([NewTopic(topic, brokers, min(_FACTOR, brokers))])
    positions = await _wait_ends(admin, topic)

    numbers = itertools.count()

    def make_client() -> "ProbeClient":
        # Connections of its own: what stands still for one must not hold up the others.
        return ProbeClient(admin.router.apart(f"probe {next(numbers)}", REQUEST_TIMEOUT_S), topic)

    probe = Probe(
        make_client,
        sorted(positions),
        positions,
        options["group"],
        options["interval_ms"] / 1000,
        options["record_size"],
        SystemClock().wall_ms,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(on_interrupt, probe.stop)  # what it has measured is still reported
        with _display(quiet=quiet) as update:

            async def refresh() -> None:
                while True:
                    await trio.sleep(_REFRESH_S)
                    update(probe.result)

            nursery.start_soon(refresh)
            await probe.run(options["duration_s"] or math.inf)
        nursery.cancel_scope.cancel()
    return probe.result


async def _wait_ends(admin: "Admin", topic: str) -> "dict[int, Offset]":
    """Return where each partition ends: a topic that was just made, or whose leader just died, takes a moment.

    Raises:
        ClientError: what kept it from being known in time.
    """
    import trio

    from ottla.client.errors import ClientError, refusal
    from wire.errors import Error
    from wire.types import TopicPartition

    problem: ClientError | None = None
    with trio.move_on_after(_LEADERS_TIMEOUT_S):
        while problem is None or problem.retriable:
            try:
                (described,) = await admin.describe_topics([topic])
                wanted = {TopicPartition(topic, each.partition): -1 for each in described.partitions}
                ends = await admin.list_offsets(wanted)
            except ClientError as error:
                problem = error
            else:
                positions = {
                    partition.partition: found.offset
                    for partition, found in ends.items()
                    if not isinstance(found, ClientError)
                }
                if len(positions) == len(ends) > 0:
                    return positions
                problem = next((each for each in ends.values() if isinstance(each, ClientError)), None)
            await trio.sleep(_LOOK_AGAIN_S)
    if problem is None:
        raise refusal(Error.REQUEST_TIMED_OUT, f"topic {topic!r} has no partitions yet")
    raise problem


@contextmanager
def _display(*, quiet: bool) -> Iterator[Any]:
    from ottla.commands.terminal.console import open_console

    console = open_console()
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.live import Live

    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda result: live.update(_table(result), refresh=True)


def _show(result: "ProbeResult") -> None:
    from ottla.commands.terminal.console import open_console

    console = open_console()
    console.print(_table(result))
    counts = f"{result.sent} sent, {result.acknowledged} acknowledged, {result.consumed} consumed"
    if result.duplicates:
        counts += f", {result.duplicates} twice"
    console.print(
        f"{counts}; the longest gap without an acknowledgement: {result.longest_gap_s * 1000:.0f} ms"
    )
    for failure, count in result.failures.most_common():
        console.print(f"[yellow]{count} x {failure}[/yellow]")
    if result.lost:
        console.print(f"[red]{result.lost} acknowledged records were LOST[/red]")
    elif result.acknowledged:
        console.print("[green]nothing was lost[/green]")


def _table(result: "ProbeResult") -> "Table":
    from ottla.commands.terminal.console import new_table

    table = new_table("Step", "Count", "p50 ms", "p95 ms", "p99 ms", "max ms")
    steps: tuple[tuple[str, Latencies], ...] = (
        ("acknowledged", result.acknowledge),
        ("end to end", result.end_to_end),
        ("committed", result.commit),
    )
    for name, latencies in steps:
        marks = [latencies.percentile_ms(share) for share in (0.5, 0.95, 0.99, 1.0)]
        table.add_row(
            name, str(len(latencies.values)), *("-" if mark is None else f"{mark:.2f}" for mark in marks)
        )
    return table
