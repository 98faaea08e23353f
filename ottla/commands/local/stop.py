"""``ottla stop``: a controlled shutdown of some brokers, or of the whole cluster."""

from collections.abc import Sequence
from pathlib import Path

import click

from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.local.process_ending import STOP_TIMEOUT_S, stop_brokers, stop_everything
from ottla.commands.terminal.choice import broker_arguments, chosen, data_option, json_option, show_state
from ottla.commands.terminal.failure import CommandError


@click.command("stop")
@data_option
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=STOP_TIMEOUT_S,
    show_default=True,
    help="Seconds after which a broker is killed.",
)
@json_option
@broker_arguments
def command(data: Path, timeout_s: float, as_json: bool, broker_ids: Sequence[int]) -> None:
    """Stop brokers, whose partitions move to others first; without ids the whole cluster, ZooKeeper too."""
    directory = ClusterDirectory(data)
    directory.require()
    with directory.locked():
        state = directory.require()
        if not broker_ids:
            directory.write(stop_everything(state, timeout_s))
            show_state(directory, as_json=as_json)
            return
        brokers = chosen(state, broker_ids)
        killed = stop_brokers(brokers, timeout_s)
        directory.write(state.with_brokers(broker.stopped() for broker in brokers))
    show_state(directory, as_json=as_json)
    if killed:
        names = ", ".join(str(broker.id) for broker in killed)
        raise CommandError(f"broker {names} did not stop within {timeout_s:g} s and was killed")
