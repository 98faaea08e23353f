"""The process of one broker: signals stop it, and its exit code says why.

SIGTERM, SIGINT and SIGHUP stop it in good order; a SIGHUP that the process was started to ignore, by nohup, is ignored.
SIGQUIT prints where every thread and task is, and changes nothing else.
"""

import faulthandler
import gc
import logging
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import trio

from cluster.broker.broker import Broker
from cluster.broker.exit_codes import ExitCode, stop_reason
from cluster.broker.loop_monitor import LoopMonitor
from cluster.broker.process_limits import set_process_limits
from cluster.broker.task_dump import format_tasks
from cluster.environment.machine import real_environment
from cluster.zookeeper.guardian import BEATS_PER_LIMIT

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.zookeeper.guardian import GuardianLink

logger = logging.getLogger(__name__)


def run(config: "BrokerConfig", link: "GuardianLink | None") -> int:
    """Run a broker until it is stopped, by SIGTERM, SIGINT or its management socket, or cannot go on.

    Args:
        config: Its settings.
        link: To the guardian that watches over this process, if there is one.

    Returns:
        The exit code of the process, one of `ExitCode`; the reason has been logged.
    """
    try:
        set_process_limits()
        trio.run(_run_process, config, link, strict_exception_groups=True)
    except BaseException as failure:  # noqa: BLE001 - the border of the process: each failure is logged and coded
        reason = stop_reason(failure)
        if reason is None:
            traceback.print_exception(failure)
            logger.critical("the broker stops because of a bug; its logs are recovered when it starts again")
            return ExitCode.BUG
        logger.critical("%s", reason)
        return reason.code
    return ExitCode.STOPPED


async def _run_process(config: "BrokerConfig", link: "GuardianLink | None") -> None:
    """Run the one broker of a process: signals stop it, and the garbage collector skips what its start loaded."""
    environment = real_environment()
    broker = Broker(config, environment, link)
    monitor = broker.loop_monitor = LoopMonitor(environment.clock, config.ottla_loop_turn_warn_ms / 1000)
    monitor.add_probes(broker.metrics)
    trio.lowlevel.add_instrument(monitor)
    async with trio.open_nursery() as nursery:
        await nursery.start(_watch_signals, broker)
        nursery.start_soon(_freeze_loaded, broker)
        if link is not None and config.ottla_hang_timeout_ms > 0:
            nursery.start_soon(_beat, broker, link, config.ottla_hang_timeout_ms / 1000)
        await broker.run()
        nursery.cancel_scope.cancel()


async def _watch_signals(
    broker: "Broker", *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    with trio.open_signal_receiver(*numbers) as signals:
        # The threads are printed by the C handler, at once, even while the loop hangs; then trio receives the signal.
        faulthandler.register(signal.SIGQUIT, all_threads=True, chain=True)
        task_status.started()
        async for number in signals:
            if number == signal.SIGQUIT:
                sys.stderr.write(f"{format_tasks()}\n")
                sys.stderr.flush()
                continue
            logger.info("stopping: received %s", signal.Signals(number).name)
            broker.stop()


async def _beat(broker: "Broker", link: "GuardianLink", limit_s: float) -> None:
    """Send heartbeats to the guardian, from when the broker serves until it has stopped."""
    await broker.ready.wait()
    link.watch(limit_s)
    try:
        while True:
            await trio.sleep(limit_s / BEATS_PER_LIMIT)
            link.beat()
    finally:
        link.watch(0)


async def _freeze_loaded(broker: "Broker") -> None:
    """Exclude what a broker has loaded from garbage collections: it stays, and scanning it costs time."""
    await broker.ready.wait()
    gc.collect()
    gc.freeze()
