"""One broker of an in-process cluster: its port, its directory, and the life that it is in."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from cluster.broker.broker import Broker
from cluster.configuration.broker_config import BrokerConfig
from cluster.environment.ports import Environment
from cluster.network.dialling import Dial
from cluster.network.listener import Listeners
from ottla.testing.in_process.front import Front
from ottla.testing.in_process.gates import ZOOKEEPER, Gates
from ottla.testing.in_process.scratch_disk import ScratchDisk, ScratchVolume
from simulation.cluster import SimulatedSession
from simulation.disk import SimulatedCrash
from simulation.zookeeper import FakeEnsemble

logger = logging.getLogger(__name__)

SettingsOf = Callable[[int, int, Path], dict[str, str]]


class Site:
    """Where one broker runs, and runs again.

    Args:
        broker_id: Its id.
        directory: Its log directory.
        environment: What all brokers of the process share.
        dial: Connects to other brokers.
        gates: What is cut.
        port: The port that clients know; 0 takes a free one.
        settings: Returns the broker's settings, by id, port and directory.

    Attributes:
        front: Its public port.
        broker: The broker that lives here, or None.
        private_port: Where it listens itself; None while it does not.
        volume: The faults of its disk.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        environment: Environment,
        dial: Dial,
        gates: Gates,
        port: int,
        settings: SettingsOf,
    ) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.front = Front(gates, self.end, port)
        self.volume = ScratchVolume()
        self.broker: Broker | None = None
        self.session: SimulatedSession | None = None
        self._environment = environment
        self._dial = dial
        self._gates = gates
        self._settings = settings
        self._listeners: Listeners | None = None
        self._disk = ScratchDisk(self.volume)
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def end(self) -> str:
        """Its name among the gates' ends."""
        return str(self.broker_id)

    @property
    def private_port(self) -> int | None:
        """Where the broker itself listens; None while it does not."""
        ports = {} if self._listeners is None or self.broker is None else self._listeners.bound_ports()
        return next(iter(ports.values()), None)

    async def live(self, ensemble: FakeEnsemble, *, task_status: trio.TaskStatus[None]) -> None:
        """Run a broker until it is stopped, killed or fails; report it as started once it serves.

        Raises:
            Exception: it cannot start. Later failures are logged.
        """
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._disk = ScratchDisk(self.volume)
        self.front.bind()
        config = BrokerConfig(self._settings(self.broker_id, self.front.port, self.directory))
        broker = self.broker = Broker(config, self._surroundings(ensemble))
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._run, broker, nursery.cancel_scope)
                    await broker.ready.wait()
                    behind = self.private_port
                    assert behind is not None
                    nursery.start_soon(self.front.serve, behind)
                    task_status.started()
        except* SimulatedCrash:
            pass
        except* Exception as failure:
            if not broker.ready.is_set():
                raise
            logger.error("broker %d cannot go on: %s", self.broker_id, failure.exceptions[0])
        finally:
            self.broker = None
            self.front.close()
            self._disk.end()
            self._ended.set()

    async def _run(self, broker: Broker, life: trio.CancelScope) -> None:
        await broker.run()
        life.cancel()

    async def kill(self) -> None:
        """End the life on the spot, as SIGKILL does: nothing more is written, its session stays as it is."""
        if self.broker is None:
            return
        if self.session is not None:
            self.session.die()
        self._disk.end()
        self._scope.cancel()
        await self._ended.wait()

    async def stop(self) -> None:
        """End the life as SIGTERM does: a controlled shutdown."""
        if self.broker is None:
            return
        self.broker.stop()
        await self._ended.wait()

    def follow_gates(self) -> None:
        """Connect or disconnect the session, as the gate to ZooKeeper is open or closed."""
        session = self.session
        if session is None or self.broker is None or session.session_id == 0:
            return
        if self._gates.is_open(self.end, ZOOKEEPER):
            session.reconnect()
        else:
            session.disconnect(silently=True)

    def describe(self) -> dict[str, Any] | None:
        """Describe the broker as its management socket would; None while it does not answer."""
        if self.broker is None or not self.broker.ready.is_set() or self._gates.is_paused(self.end):
            return None
        return {**self.broker.describe(), "partitions": list(self.broker.partition_descriptions())}

    def _surroundings(self, ensemble: FakeEnsemble) -> Environment:
        def open_session(config: BrokerConfig) -> SimulatedSession:
            timeout_s = config.zookeeper_session_timeout_ms / 1000
            self.session = SimulatedSession(ensemble, timeout_s, self._environment.clock.monotonic)
            return self.session

        def make_listeners(*arguments: Any, **options: Any) -> Listeners:
            self._listeners = Listeners(*arguments, **options)
            return self._listeners

        return replace(
            self._environment,
            disk=self._disk,
            open_session=open_session,
            make_listeners=make_listeners,
            dial=self._dial,
        )
