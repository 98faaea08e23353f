"""``ottla up --in-process``: brokers without ZooKeeper's process and without files that stay."""

import signal
import threading
from collections.abc import Mapping, Sequence

import click

from ottla.commands.terminal.failure import failing_on


def run_in_process(ports: Sequence[int], settings: Mapping[str, str]) -> None:
    """Run a cluster in this process until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        ports: The brokers' ports; 0 for free ones.
        settings: Settings of all brokers.

    Raises:
        CommandError: it cannot start.
    """
    from ottla.testing.in_process import InProcessCluster
    from ottla.testing.view import ClusterError

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with failing_on(ClusterError):
            running = InProcessCluster.up(brokers=len(ports), ports=ports, settings=settings)
        with running:
            click.echo(f"bootstrap servers: {running.bootstrap_servers}")
            click.echo("In this process, with nothing kept on disk; Ctrl-C ends it.", err=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        return
