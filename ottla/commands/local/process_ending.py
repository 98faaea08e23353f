"""Ending processes of a cluster: in good order, by force, or as the loss of a host would."""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
from ottla.commands.terminal.interruption import held_back, let_through
from ottla.processes import wait_exit
from ottla.zookeeper_server import stop_process
from timing.clock import SystemClock

STOP_TIMEOUT_S: Final = 60.0
_FAREWELL_S: Final = 0.5
"""How long brokers may give leaders away to each other where all of them stop: the last one has nobody."""
_GUARDIAN_TIMEOUT_S: Final = 10.0
"""How long a guardian may take after its broker's death: it may have to wait for ZooKeeper."""


def stop_brokers(brokers: Sequence[BrokerRecord], timeout_s: float = STOP_TIMEOUT_S) -> list[BrokerRecord]:
    """Have brokers stop by a controlled shutdown, all at once; by force where that takes too long.

    Returns:
        Those that had to be killed.
    """
    running = [broker for broker in brokers if broker.is_running]
    for broker in running:
        _send(broker.pid, signal.SIGTERM)
    return _end(running, timeout_s)


def _end(running: Sequence[BrokerRecord], timeout_s: float) -> list[BrokerRecord]:
    """Wait for stopping brokers; kill those that take too long, and return them."""
    late = [broker for broker in running if broker.pid is not None and not wait_exit(broker.pid, timeout_s)]
    for broker in late:
        _send(broker.pid, signal.SIGKILL)
    _wait_gone(running)
    return late


def kill_brokers(brokers: Sequence[BrokerRecord]) -> None:
    """Kill the brokers' processes, as a crash would; their guardians close the sessions."""
    for broker in brokers:
        if broker.is_running:
            _send(broker.pid, signal.SIGKILL)
    _wait_gone(brokers)


def kill_hosts(brokers: Sequence[BrokerRecord]) -> None:
    """Kill guardians and brokers, as the loss of a host would: the sessions must time out."""
    # The guardian first: it must not live to see its broker die.
    for broker in brokers:
        if broker.guardian_is_running:
            _send(broker.guardian_pid, signal.SIGKILL)
        if broker.is_running:
            _send(broker.pid, signal.SIGKILL)
    _wait_gone(brokers)


def stop_everything(state: ClusterState, timeout_s: float = STOP_TIMEOUT_S) -> ClusterState:
    """Stop all brokers, then our ZooKeeper.

    Returns:
        The state without processes.
    """
    running = [broker for broker in state.brokers if broker.is_running]
    for broker in running:
        _send(broker.pid, signal.SIGTERM)
    clock = SystemClock()
    deadline = clock.monotonic() + min(_FAREWELL_S, timeout_s)
    for broker in running:
        if broker.pid is not None and not wait_exit(broker.pid, max(0.0, deadline - clock.monotonic())):
            # Signalled again, a broker leaves without handing its partitions over.
            _send(broker.pid, signal.SIGTERM)
    _end(running, timeout_s)
    if state.zookeeper_is_running and state.zookeeper_pid is not None:
        stop_process(state.zookeeper_pid, timeout_s)
    stopped = state.with_brokers(broker.stopped() for broker in state.brokers)
    return replace(stopped, zookeeper_pid=None)


def stop_or_kill(state: ClusterState) -> tuple[ClusterState, bool]:
    """Stop all brokers, then our ZooKeeper, where Ctrl-C is held back: one that comes now kills the brokers.

    Returns:
        The state without processes, and whether Ctrl-C came.
    """
    try:
        with let_through():
            return stop_everything(state), False
    except KeyboardInterrupt:
        with held_back():
            kill_brokers(state.brokers)
            return stop_everything(state), True


def _wait_gone(brokers: Sequence[BrokerRecord]) -> None:
    for broker in brokers:
        if broker.pid is not None and broker.is_running:
            wait_exit(broker.pid, STOP_TIMEOUT_S)
        if broker.guardian_pid is not None and broker.guardian_is_running:
            wait_exit(broker.guardian_pid, _GUARDIAN_TIMEOUT_S)


def _send(pid: int | None, number: signal.Signals) -> None:
    if pid is None:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself meanwhile
