"""The terminal of ``ottla up``: the cluster's state until Ctrl-C, and then a clean stop."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.local.cluster_view import ClusterView, observe
from ottla.commands.local.process_ending import stop_or_kill
from ottla.commands.terminal.interruption import STOPS, held_back

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.commands.local.cluster_directory import ClusterDirectory

_REFRESH_S: Final = 0.5
_OTHER_LINES: Final = 8
"""Lines of the terminal that are not the brokers' and the partitions' rows."""


def watch_until_interrupted(directory: "ClusterDirectory", introduce: Callable[[], object]) -> None:
    """Show the cluster until Ctrl-C, SIGTERM, or until another command has stopped it; then leave it stopped.

    Args:
        directory: The cluster.
        introduce: Called once, behind the first line; it may print more.
    """
    from ottla.commands.terminal.console import open_console

    console = open_console()
    # Held back, so that Ctrl-C is waited for, with the next look as the time-out.
    with held_back():
        show = _show_table if console.is_terminal else _show_lines
        show(console, directory, introduce)
        _stop(console, directory)


def _show_table(console: "Console", directory: "ClusterDirectory", introduce: Callable[[], object]) -> None:
    from rich.live import Live

    from ottla.commands.local.cluster_tables import render

    state = directory.require()
    line = f"bootstrap servers {state.bootstrap_servers}"
    if len(line) > console.width or len(state.brokers) + _OTHER_LINES > console.height:
        # The table cuts what does not fit; this line is to be pasted whole.
        console.print(line, soft_wrap=True)
    introduce()
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            view = observe(directory.require())
            if _is_over(view):
                return
            rows = console.height - _OTHER_LINES - len(view.brokers)
            live.update(render(view, partitions_max=max(1, rows)), refresh=True)
            if signal.sigtimedwait(STOPS, _REFRESH_S) is not None:
                return


def _show_lines(console: "Console", directory: "ClusterDirectory", introduce: Callable[[], object]) -> None:
    """Print a line for each thing that changes."""
    view = observe(directory.require())
    console.print(f"bootstrap servers: {view.state.bootstrap_servers}")
    introduce()
    shown: dict[str, str] = {}
    while not _is_over(view):
        facts = {
            f"broker {status.record.id} at {status.record.host}:{status.record.port}": status.state
            for status in view.brokers
        }
        facts["the controller"] = f"broker {view.controller_id}" if view.controller_id >= 0 else "none"
        for what, value in facts.items():
            if shown.get(what) != value:
                console.print(f"{what} is {value}")
        shown = facts
        if signal.sigtimedwait(STOPS, _REFRESH_S) is not None:
            return
        view = observe(directory.require())


def _is_over(view: ClusterView) -> bool:
    """Whether another command has stopped everything."""
    return all(status.record.pid is None for status in view.brokers) and view.state.zookeeper_pid is None


def _stop(console: "Console", directory: "ClusterDirectory") -> None:
    with directory.locked():
        state = directory.require()
        if any(broker.is_running for broker in state.brokers) or state.zookeeper_is_running:
            console.print("Stopping; Ctrl-C again kills the brokers.")
        state, was_hurried = stop_or_kill(state)
        directory.write(state)
        if was_hurried:
            raise click.Abort
