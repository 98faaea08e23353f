"""The cluster of a simulated program: clients of it, and faults by name."""

import errno
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, cast

import trio

from cluster.network.broker_client import ConnectionFailedError
from ottla.client.kafka import Kafka
from ottla.client.settings import ConnectionSettings
from ottla.testing.view import (
    WAIT_TIMEOUT_S,
    ClusterError,
    ClusterView,
    all_in_sync,
    all_led,
    replicas_of_topic,
)
from simulation.client_link import client_dialer
from simulation.cluster import PORT, Machine, SimulatedCluster
from wire.errors import Error
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.types import BrokerId

CLIENT: Final = "client"
"""The default machine of clients."""
_CREATE_TOPICS_VERSION: Final = 5
_CREATE_TIMEOUT_MS: Final = 30_000
_LOOK_AGAIN_S: Final = 0.01


class VirtualCluster:
    """Brokers on machines of a simulated network, with ids from 0 on, and one ZooKeeper.

    A method takes only as much real time as its work needs. Methods that wait are coroutines.
    """

    def __init__(self, cluster: SimulatedCluster, seed: int) -> None:
        self._cluster = cluster
        self._seed = seed
        self._clients: dict[str, None] = {CLIENT: None}
        self._connected = 0

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The brokers, running or not."""
        return tuple(int(number) for number in self._cluster.machines)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as `connect` uses them."""
        return ",".join(f"{machine.name}:{PORT}" for machine in self._cluster.machines.values())

    def connect(self, client_id: str = "ottla", *, machine: str = CLIENT, **settings: Any) -> Kafka:
        """Return a client of the cluster, for the length of an ``async with`` block, as `ottla.client.connect` does.

        Args:
            client_id: What brokers see the client as.
            machine: The name of the machine that it runs on, for `cut_client`.
            settings: Timeouts and back-offs: the fields of `ConnectionSettings`, in seconds.
        """
        self._clients[machine] = None
        self._connected += 1
        return Kafka(
            self.bootstrap_servers,
            ConnectionSettings(client_id=client_id, **settings),
            clock=self._cluster.clock,
            source=Random(f"{self._seed} {self._connected}"),
            dialer=cast("Any", client_dialer(self._cluster.network, machine)),
        )

    # Lives

    async def kill(self, *broker_ids: int, host: bool = False) -> None:
        """End brokers as SIGKILL does: what was written is there, and connections break.

        Args:
            broker_ids: Which.
            host: Their hosts die with them, so that nothing closes their ZooKeeper sessions.
        """
        for number in broker_ids:
            await self._cluster.kill(number, guarded=not host)
            for client in self._clients:
                self._cluster.network.break_connections(self._machine(number).name, client)

    async def lose_power(self, *broker_ids: int) -> None:
        """End machines at once: a random part of what was not synced is lost; `start` brings them back."""
        for number in broker_ids:
            await self._cluster.lose(number)

    async def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns."""
        for number in broker_ids:
            await self._cluster.stop(number)

    async def start(self, *broker_ids: int) -> None:
        """Start brokers that are not running, on their data, and wait until they serve; all by default.

        Raises:
            ClusterError: one ends by itself, as with a disk that is still full.
        """
        for number in broker_ids or self.broker_ids:
            machine = self._machine(number)
            if machine.broker is not None:
                continue
            self._cluster.restore(number)
            await self._cluster.start(number)
            if machine.broker is None:
                raise ClusterError(f"broker {number} does not start: {machine.failure}")

    async def restart(self, *broker_ids: int) -> None:
        """Stop brokers and start them, one after the other; all by default."""
        for number in broker_ids or self.broker_ids:
            await self.stop(number)
            await self.start(number)

    # Faults

    def pause(self, *broker_ids: int) -> None:
        """Pause brokers, as seen from outside: nothing reaches them, and nothing comes from them, until `heal`."""
        for number in broker_ids:
            machine = self._machine(number)
            self._cluster.network.isolate(machine.name)
            self._leave_zookeeper(machine)

    def cut(
        self,
        broker_id: int,
        others: Sequence[int] | None = None,
        *,
        zookeeper: bool = False,
        clients: bool = False,
        one_way: bool = False,
    ) -> None:
        """Cut the network around a broker, without a reset: what is sent waits until `heal`.

        Args:
            broker_id: The broker.
            others: The brokers to cut it off from, in both directions; all by default, none if empty.
            zookeeper: Whether it is cut off from ZooKeeper, too.
            clients: Whether it is cut off from all clients, too.
            one_way: Whether only what the broker sends is held up.
        """
        machine = self._machine(broker_id)
        away = [self._machine(other).name for other in (self.broker_ids if others is None else others)]
        for name in [*away, *(self._clients if clients else ())]:
            if name != machine.name:
                self._cluster.network.cut(machine.name, name, one_way=one_way)
        if zookeeper:
            self._leave_zookeeper(machine)

    def cut_client(self, machine: str = CLIENT) -> None:
        """Cut the machine of some clients off from everything, until `heal`."""
        self._cluster.network.isolate(machine)

    def full_disk(self, broker_id: int) -> None:
        """Leave no space on a broker's disk. The broker ends at its next write: `heal` and `start` it."""
        self._machine(broker_id).disk.fail_at(1, errno.ENOSPC)

    def slow_disk(self, broker_id: int, seconds: float) -> None:
        """Delay each piece of work that a broker does outside of its loop by some seconds, until `heal`."""
        self._machine(broker_id).work_delay_s = seconds

    def jump_clock(self, broker_id: int, seconds: float) -> None:
        """Set a broker's wall clock ahead or back, until `heal`; its monotonic clock is not affected."""
        self._machine(broker_id).clock.jump_ms += int(seconds * 1000)

    def expire_session(self, broker_id: int) -> None:
        """End a broker's ZooKeeper session, as if it had been silent for too long."""
        session = self._machine(broker_id).session
        if session is not None and self._cluster.ensemble.is_alive(session.session_id):
            self._cluster.ensemble.expire(session.session_id)

    def heal(self) -> None:
        """Undo pauses, cuts, and the faults of disks and clocks; brokers that died need `start`."""
        self._cluster.heal()

    def _leave_zookeeper(self, machine: Machine) -> None:
        if machine.broker is not None and machine.session is not None:
            machine.session.disconnect(silently=True)

    # Contents

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until all its replicas are in sync.

        Args:
            name: Its name.
            partitions: How many.
            replicas: Of each; three, or as many as there are brokers, by default.
            configs: Its settings, by Kafka's names.

        Raises:
            ClusterError: it cannot be created.
        """
        count = replicas_of_topic(replicas, self.broker_ids)
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=count,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        controller = (await self.wait(lambda seen: seen.controller_id >= 0)).controller_id
        client = self._cluster.client(controller)
        try:
            response = await client.request(
                CreateTopicsRequest(topics=[topic], timeout_ms=_CREATE_TIMEOUT_MS), _CREATE_TOPICS_VERSION
            )
        except ConnectionFailedError as failure:
            raise ClusterError(f"{name} is not created: {failure}") from failure
        finally:
            client.close()
        answer = response.topics[0]
        if answer.error_code:
            error = Error.from_code(answer.error_code)
            raise ClusterError(f"{name} is not created: {answer.error_message or error.name}")
        await self.wait(all_led(name, partitions))
        await self.wait(all_in_sync(name, partitions, count))

    def view(self) -> ClusterView:
        """Return what the running brokers report at this moment."""
        return ClusterView(
            {
                int(number): {**broker.describe(), "partitions": list(broker.partition_descriptions())}
                for number, broker in self._cluster.running().items()
            }
        )

    async def wait(
        self, condition: Callable[[ClusterView], bool], timeout_s: float = WAIT_TIMEOUT_S
    ) -> ClusterView:
        """Look at the cluster until a condition holds, and return what was seen.

        Raises:
            ClusterError: it does not hold within ``timeout_s`` simulated seconds.
        """
        with trio.move_on_after(timeout_s):
            while True:
                seen = self.view()
                if condition(seen):
                    return seen
                await trio.sleep(_LOOK_AGAIN_S)
        raise ClusterError(f"not within {timeout_s:g} s; the brokers say: {dict(self.view().descriptions)}")

    async def wait_whole(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until every broker runs, all agree on a controller, and all replicas are in sync.

        Raises:
            ClusterError: that does not happen within ``timeout_s`` simulated seconds.
        """
        await self.wait(self._is_whole, timeout_s)

    def _is_whole(self, seen: ClusterView) -> bool:
        ids = sorted(self.broker_ids)
        return (
            sorted(seen.descriptions) == ids
            and seen.controller_id >= 0
            and all(each.get("live_brokers") == ids for each in seen.descriptions.values())
            and all(
                set(partition["isr"]) == set(partition["replicas"])
                for description in seen.descriptions.values()
                for partition in description["partitions"]
                if partition["is_leader"]
            )
        )

    def _machine(self, broker_id: int) -> Machine:
        try:
            return self._cluster.machines[BrokerId(broker_id)]
        except KeyError:
            raise ClusterError(f"there is no broker {broker_id} among {self.broker_ids}") from None
