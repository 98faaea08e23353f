"""``ottla kill``: what a crash, or the loss of a host, does to brokers."""

from collections.abc import Sequence
from pathlib import Path

import click

from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.local.process_ending import kill_brokers, kill_hosts
from ottla.commands.terminal.choice import broker_arguments, chosen, data_option, json_option, show_state


@click.command("kill")
@data_option
@click.option("--host", is_flag=True, help="Kill the guardian too, as when a host is lost.")
@json_option
@broker_arguments
def command(data: Path, host: bool, as_json: bool, broker_ids: Sequence[int]) -> None:
    """Kill brokers with SIGKILL; without ids all of them."""
    directory = ClusterDirectory(data)
    directory.require()
    with directory.locked():
        state = directory.require()
        brokers = chosen(state, broker_ids)
        (kill_hosts if host else kill_brokers)(brokers)
        directory.write(state.with_brokers(broker.stopped() for broker in brokers))
    show_state(directory, as_json=as_json)
