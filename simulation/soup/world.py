"""The cluster of one run, and what faults, operators, clients and checks need of it."""

from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from cluster.network.broker_client import ConnectionFailedError
from ottla.client.kafka import Kafka
from ottla.client.settings import ConnectionSettings
from simulation.client_link import client_dialer
from simulation.cluster import PORT, Machine, SimulatedCluster
from simulation.soup.plan import CONTROLLER, Plan
from wire.errors import Error
from wire.schema import Request
from wire.types import BrokerId

if TYPE_CHECKING:
    from ottla.client.broker_links import Dialer

CLIENTS: Final = "client"
"""The machine of all clients."""
ORDERS: Final = "orders"
BILLS: Final = "bills"
BILLS_PARTITIONS: Final = 2
_ASK_TIMEOUT_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.02
_SETTINGS: Final = {
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "100",
    "log.dirs": "/logs,/more",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "ottla.peer.timeout.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "transaction.state.log.num.partitions": "2",
    "unclean.leader.election.enable": "false",
    "zookeeper.session.timeout.ms": "3000",
}


class World:
    """One run's cluster.

    Args:
        plan: The run.

    Attributes:
        cluster: The brokers, the network and ZooKeeper.
        log: What happened, each with its time, for the story of a failure.
        under_way: How many happenings have begun and not ended.
        power: Held while unsynced data is at risk: a second loss of power meanwhile may lose acknowledged records.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        settings = dict(_SETTINGS)
        if plan.durable:
            settings["log.flush.on.ack"] = "true"
        self.cluster = SimulatedCluster(plan.seed, broker_count=plan.brokers, settings=settings)
        self.log: list[tuple[float, str]] = []
        self.power = trio.Lock()
        self.under_way = 0
        self._begun = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way besides the caller."""
        return self.under_way <= 1

    def begin(self) -> None:
        """Count times from now on."""
        self._begun = trio.current_time()

    @property
    def now(self) -> float:
        """Seconds since the clients began."""
        return trio.current_time() - self._begun

    def note(self, text: str) -> None:
        """Note what happens, for the story."""
        self.log.append((self.now, text))

    @property
    def broker_ids(self) -> list[int]:
        """Every broker, running or not."""
        return [int(number) for number in self.cluster.machines]

    def machine(self, broker: int) -> Machine:
        """Return a broker's machine; the controller's of the moment for `CONTROLLER`."""
        number = self.controller() if broker == CONTROLLER else broker
        return self.cluster.machines[BrokerId(number if number >= 0 else 0)]

    def number_of(self, machine: Machine) -> int:
        """Return the id of the broker that runs on a machine."""
        return next(int(number) for number, each in self.cluster.machines.items() if each is machine)

    # The brokers' state

    def controller(self) -> int:
        """Return the active controller, -1 while there is none."""
        for number, broker in self.cluster.running().items():
            if broker.describe().get("controller", {}).get("active"):
                return int(number)
        return -1

    def replicas(self) -> list[tuple[int, dict[str, Any]]]:
        """Return every replica of every running broker, as the broker describes it."""
        return [
            (int(number), each)
            for number, broker in sorted(self.cluster.running().items())
            for each in broker.partition_descriptions()
        ]

    def is_whole(self) -> bool:
        """Whether every broker runs and knows the others, and every partition is led with all its replicas in sync."""
        return not self.what_is_missing()

    def what_is_missing(self) -> str:
        """Return what this cluster lacks to be whole, as text; empty where it is whole."""
        running = self.cluster.running()
        if len(running) < len(self.cluster.machines):
            return f"only the brokers {sorted(running)} run"
        ids = sorted(int(number) for number in running)
        for number, broker in running.items():
            described = broker.describe()
            if described.get("live_brokers") != ids or described.get("controller_id") not in ids:
                known, controller = described.get("live_brokers"), described.get("controller_id")
                return f"broker {number} knows the brokers {known} and the controller {controller}"
        hosted: dict[tuple[str, int], set[int]] = {}
        led: dict[tuple[str, int], tuple[set[int], set[int]]] = {}
        for number_on, each in self.replicas():
            place = each["topic"], each["partition"]
            hosted.setdefault(place, set()).add(number_on)
            if each["is_leader"]:
                led[place] = set(each["replicas"]), set(each["isr"])
        for place, brokers in sorted(hosted.items()):
            replicas, isr = led.get(place, (set(), set()))
            if not replicas == isr == brokers:
                return (
                    f"{place[0]}-{place[1]} has the replicas {replicas}, the ISR {isr}, and is on {brokers}"
                )
        return ""

    # Asking as an operator does

    async def ask(self, broker: int, request: Request, version: int) -> Any:
        """Return a broker's answer; None where it cannot be asked."""
        if BrokerId(broker) not in self.cluster.running():
            return None
        client = self.cluster.client(broker, timeout_s=_ASK_TIMEOUT_S)
        try:
            return await client.request(request, version)
        except ConnectionFailedError:
            return None
        finally:
            client.close()

    async def ask_controller(self, request: Request, version: int, tries: int = 20) -> Any:
        """Ask the current controller until one answers; None where none does in the given number of tries."""
        for _ in range(tries):
            response = await self.ask(self.controller(), request, version)
            if response is not None and getattr(response, "error_code", 0) != Error.NOT_CONTROLLER:
                return response
            await trio.sleep(_LOOK_AGAIN_S * 5)
        return None

    def kafka(self, name: str) -> Kafka:
        """Return a client of the library, on the clients' machine."""
        addresses = ",".join(f"{machine.name}:{PORT}" for machine in self.cluster.machines.values())
        return Kafka(
            addresses,
            ConnectionSettings(client_id=name, request_timeout=4.0),
            clock=self.cluster.clock,
            source=Random(f"{self.plan.seed} {name}"),
            dialer=cast("Dialer", client_dialer(self.cluster.network, CLIENTS)),
        )
