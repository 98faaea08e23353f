"""``ottla start``: stopped and killed brokers come back on their directories."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from ottla.commands.terminal.choice import broker_arguments, chosen, data_option, json_option, show_state
from ottla.commands.terminal.failure import failing_on


@click.command("start")
@data_option
@json_option
@broker_arguments
def command(data: Path, as_json: bool, broker_ids: Sequence[int]) -> None:
    """Start brokers that do not run, and ZooKeeper if it is the cluster's own; returns when they are healthy."""
    # First of all, so that it imports while the rest goes on.
    from ottla.commands.local.launcher import Launcher, LaunchError

    launcher = Launcher()
    from ottla.commands.local.cluster_directory import ClusterDirectory
    from ottla.commands.local.health import wait_healthy
    from ottla.commands.local.zookeeper_process import start_zookeeper
    from ottla.zookeeper_server import ZooKeeperStartError
    from timing.clock import SystemClock

    directory = ClusterDirectory(data)
    try:
        directory.require()
        with directory.locked(), failing_on(ZooKeeperStartError, LaunchError):
            state = directory.require()
            brokers = [broker for broker in chosen(state, broker_ids) if not broker.is_running]
            if state.zookeeper_is_ours and not state.zookeeper_is_running:
                server = start_zookeeper(directory, state.zookeeper)
                state = replace(state, zookeeper_pid=server.pid)
                directory.write(state)
                server.wait_serving()
                server.detach()
            started = launcher.launch(brokers)
            directory.write(state.with_brokers(started))
            wait_healthy(started, SystemClock())
    finally:
        launcher.close()
    show_state(directory, as_json=as_json)
