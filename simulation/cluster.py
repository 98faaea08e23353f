"""A whole cluster in one process: real brokers on simulated machines, with one ZooKeeper, from one seed.

All of a broker is the product's own code, from the frame that it receives to the file that it writes; only time, disk,
network, ZooKeeper and chance are simulated. A killed process leaves its disk as it was written, a lost machine loses
what was not synced; both leave their ZooKeeper session to its timeout, unless a guardian closes it.

Run it under `trio.testing.MockClock(autojump_threshold=0)`: simulated hours take only as long as their events.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import trio

from cluster.broker.broker import Broker
from cluster.broker.exit_codes import BrokerStopError, stop_reason
from cluster.configuration.broker_config import BrokerConfig
from cluster.environment.ports import Environment
from cluster.network.broker_client import BrokerClient
from cluster.network.offloads import all_by
from cluster.zookeeper.session_closer import SessionKey
from simulation.cleaning_worker import InlineWorker
from simulation.clock import SimulatedClock
from simulation.disk import SimulatedCrash, SimulatedDisk
from simulation.network import SimulatedNetwork
from simulation.network_faults import NetworkFaults
from simulation.zookeeper import FakeZooKeeper
from simulation.zookeeper_ensemble import FakeEnsemble
from wire.types import BrokerId

PORT: Final = 9092
LOOK_AGAIN_S: Final = 0.01
"""The interval at which `SimulatedCluster.wait` checks, in seconds of simulated time."""

_T = TypeVar("_T")


class SimulatedSession(FakeZooKeeper):
    """A session whose process can be killed: then it is not closed.

    Attributes:
        is_dead: Whether the process was killed.
    """

    is_dead = False

    def die(self) -> None:
        """Die with the process: the session waits for its timeout."""
        self.abandon()
        self.is_dead = True

    def close(self) -> None:
        """End the session properly, unless the process is dead."""
        if not self.is_dead:
            super().close()


class Machine:
    """One machine and the broker that runs on it, if one does.

    Attributes:
        broker: The running broker, or None.
        disk: Its disk, which outlives the broker.
        clock: Its clocks.
        session: The ZooKeeper session of the last broker that ran here.
        work_delay_s: How long work in threads takes, in seconds; above 0 it stands for a slow disk.
        failure: Why the last broker stopped by itself.
        ended: Set while none runs.
    """

    def __init__(self, name: str, disk: SimulatedDisk, clock: SimulatedClock) -> None:
        self.name = name
        self.disk = disk
        self.clock = clock
        self.work_delay_s = 0.0
        self.failure: BrokerStopError | None = None
        self.broker: Broker | None = None
        self.session: SimulatedSession | None = None
        self.scope = trio.CancelScope()
        self.ended = trio.Event()


class SimulatedCluster:
    """Brokers on a network of machines named `broker-<id>`, with one ZooKeeper.

    Args:
        seed: The source of all chance.
        broker_count: How many machines with a broker there are, with ids from 0 on.
        settings: Of every broker, over those that the simulation needs.
        faults: The faults that the network makes by chance.

    Attributes:
        network: Makes faults of the network on demand.
        ensemble: Makes faults of ZooKeeper on demand.
    """

    def __init__(
        self,
        seed: int,
        *,
        broker_count: int = 3,
        settings: Mapping[str, str] | None = None,
        faults: NetworkFaults | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.clock = SimulatedClock()
        self.network = SimulatedNetwork(seed, faults)
        self.ensemble = FakeEnsemble(
            delay=partial(self.random.uniform, 0.0001, 0.002), wall_ms=self.clock.wall_ms
        )
        self.machines = {
            BrokerId(number): self._machine(f"broker-{number}") for number in range(broker_count)
        }
        self._settings = dict(settings or {})
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the network and ZooKeeper until cancelled; started brokers run in its nursery."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.network.run, name="network")
            nursery.start_soon(self.ensemble.run, name="ZooKeeper")
            task_status.started()

    async def start(self, *broker_ids: int) -> None:
        """Start brokers, or start them again, and wait until they serve, or have stopped by themselves."""
        for number in broker_ids or tuple(self.machines):
            machine = self.machines[BrokerId(number)]
            machine.scope, machine.ended = trio.CancelScope(), trio.Event()
            broker = machine.broker = Broker(self._config(number), self._surroundings(machine))
            if self._nursery is None:
                raise RuntimeError("the cluster does not run")
            self._nursery.start_soon(self._live, machine, broker, name=machine.name)
            async with trio.open_nursery() as either:
                either.start_soon(_cancel_after, broker.ready, either.cancel_scope)
                either.start_soon(_cancel_after, machine.ended, either.cancel_scope)

    async def stop(self, broker_id: int) -> None:
        """Stop a broker as SIGTERM does, and wait until it has left."""
        machine = self.machines[BrokerId(broker_id)]
        if machine.broker is not None:
            machine.broker.stop()
            await machine.ended.wait()

    def kill_at_change(self, broker_id: int, change: int | None) -> None:
        """Let a broker's process die at a change of its disk, counted from now; `kill` or `lose` has to follow.

        None cancels that. Wait for the `ended` of its machine.
        """
        machine = self.machines[BrokerId(broker_id)]
        session = machine.session
        machine.disk.on_crash = (lambda: None) if session is None else session.die
        machine.disk.crash_at(change)

    async def kill(self, *broker_ids: int, guarded: bool = True, lingers_s: float = 0.0) -> None:
        """Kill the processes of brokers: their files stay as written, their connections break.

        Args:
            broker_ids: Which ones.
            guarded: Whether their guardians live and close the sessions; else those wait for their timeouts.
            lingers_s: How long their ports still accept connections after the former ones broke, in seconds: a kernel
                closes the files of a dead process one after another, with pauses on a busy machine.
        """
        machines = [self.machines[BrokerId(each)] for each in broker_ids]
        for machine in machines:
            await self._end(machine)
            machine.disk.stop()
            self.network.host(machine.name).forget_listeners()
            if lingers_s:
                self.network.host(machine.name).linger(PORT)
            self._break_connections(machine)
        if lingers_s:
            await trio.sleep(lingers_s)
        for machine in machines:
            if lingers_s:
                self.network.host(machine.name).forget_listeners()
                self._break_connections(machine)
            if guarded:
                self._close_session_of(machine)

    def _break_connections(self, machine: Machine) -> None:
        for other in [*(each.name for each in self.machines.values()), "client"]:
            self.network.break_connections(machine.name, other)

    def _close_session_of(self, machine: Machine) -> None:
        session = machine.session
        if session is not None and self.ensemble.is_alive(session.session_id):
            self.ensemble.close_session(session.session_id, session.session_password)

    async def lose(self, broker_id: int) -> None:
        """Lose a machine without notice; the seed chooses what is left of the unsynced data."""
        machine = self.machines[BrokerId(broker_id)]
        self.network.lose(machine.name)
        await self._end(machine)
        machine.disk.crash(self._choose)

    def reconnect(self, broker_id: int) -> None:
        """Let a broker reach ZooKeeper again; no change where it does, or does not run."""
        machine = self.machines[BrokerId(broker_id)]
        session = machine.session
        if machine.broker is not None and session is not None and session.session_id and not session.is_dead:
            session.reconnect()

    def heal(self) -> None:
        """Undo every remaining fault of disks, clocks and the network; dead brokers stay dead."""
        self.network.heal_all()
        self.network.faults.stall_chance = self.network.faults.reset_chance = 0.0
        for number, machine in self.machines.items():
            machine.work_delay_s = 0.0
            machine.clock.jump_ms = 0
            machine.disk.fail_at(None)
            self.restore(number)
            self.reconnect(number)

    def restore(self, broker_id: int) -> None:
        """Bring a lost machine back; its broker is started by `start`."""
        self.network.restore(self.machines[BrokerId(broker_id)].name)

    def client(self, broker_id: int, *, timeout_s: float = 30.0, host: str = "client") -> BrokerClient:
        """Return a client of one broker, on a machine without a broker."""
        name = self.machines[BrokerId(broker_id)].name
        return BrokerClient(
            name, PORT, "client", request_timeout_s=timeout_s, dial=self.network.host(host).dial
        )

    def running(self) -> dict[BrokerId, Broker]:
        """Return the brokers that run, by id."""
        return {number: each.broker for number, each in self.machines.items() if each.broker is not None}

    async def wait(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait until a condition holds.

        Raises:
            trio.TooSlowError: it does not hold in time.
        """
        with trio.fail_after(timeout_s):
            while not condition():  # noqa: ASYNC110 - conditions look at state whose changes no event reports
                await trio.sleep(LOOK_AGAIN_S)

    async def _live(self, machine: Machine, broker: Broker) -> None:
        """Run a broker as a process would: neither a kill nor an expected failure propagates to the cluster."""
        machine.failure = None
        try:
            with machine.scope:
                await broker.run()
        except* SimulatedCrash:
            pass
        except* Exception as failure:
            machine.failure = stop_reason(failure)
            if machine.failure is None:
                raise
            self.network.note(f"{machine.name} stops: {machine.failure}")
            self._die(machine)
        finally:
            machine.broker = None
            machine.ended.set()

    async def _end(self, machine: Machine) -> None:
        """End a process at once: it writes and sends nothing more."""
        if machine.broker is None:
            return
        if machine.session is not None:
            machine.session.die()
        machine.disk.crash_at(0)
        machine.scope.cancel()
        await machine.ended.wait()

    def _die(self, machine: Machine) -> None:
        """Clean up after a process that ended by itself, as its guardian does: close its session."""
        machine.disk.stop()
        session = machine.session
        if session is not None:
            session.die()
            self.ensemble.close_session(session.session_id, session.session_password)

    def _machine(self, name: str) -> Machine:
        clock = SimulatedClock()
        return Machine(name, SimulatedDisk(now_ms=clock.wall_ms, choose=self._choose), clock)

    def _config(self, number: int) -> BrokerConfig:
        return BrokerConfig(
            {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://broker-{number}:{PORT}",
                "log.dirs": "/logs",
                "zookeeper.connect": "fake:2181",
                "zookeeper.session.timeout.ms": "6000",
                "controlled.shutdown.retry.backoff.ms": "500",
                "ottla.session.reattach": "false",
                **self._settings,
            }
        )

    def _surroundings(self, machine: Machine) -> Environment:
        def open_session(config: BrokerConfig) -> SimulatedSession:
            timeout_s = config.zookeeper_session_timeout_ms / 1000
            machine.session = SimulatedSession(self.ensemble, timeout_s, machine.clock.monotonic)
            return machine.session

        async def offload(work: Callable[[], _T]) -> _T:
            if machine.work_delay_s:
                await trio.sleep(machine.work_delay_s)
            else:
                await trio.lowlevel.checkpoint()
            return work()

        host = self.network.host(machine.name)
        return Environment(
            clock=machine.clock,
            disk=machine.disk,
            open_session=open_session,
            dial=host.dial,
            close_session=self._close_session,
            make_listeners=host.listeners,
            offloads=all_by(offload),
            offload_abandoned=offload,
            random=random.Random(self.random.getrandbits(64)),
            has_files=False,
            cleaning_worker=partial(InlineWorker, machine.disk),
        )

    async def _close_session(self, key: SessionKey) -> bool:
        await trio.lowlevel.checkpoint()
        self.ensemble.close_session(key.session_id, key.password)
        return True

    def _choose(self, count: int) -> int:
        return self.random.randint(0, count)


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
