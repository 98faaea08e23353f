"""A network in memory, lossy by a seed, on which a whole cluster runs in one process.

It implements both of a broker's seams to the network: `SimulatedHost.dial` makes links for a
`cluster.network.broker_client.BrokerClient`, and `SimulatedHost.listeners` makes `cluster.network.listener.Listeners`
on ports of its own. Framing, order, back-pressure, limits and time-outs are the real code's.

What it does, always: delays, within `NetworkFaults.delay_s`. By chance, as far as `faults` allows: stalls,
splits and broken connections. On demand, for a fault plan:

- ``cut(a, b)``: what a sends to b is held back until ``heal(a, b)``; both ways unless ``one_way=True``. Nothing reports
  it: time-outs have to notice. New connections hang.
- ``isolate(a)``, ``rejoin(a)``: the same between a and all others.
- ``break_connections(a, b)``: both sides learn that their connections broke; what was on its way is lost.
- ``lose(a)``: the machine is gone without notice; ``restore(a)``: it is back, and knows none of its old connections.
  A process that dies alone needs no call here: closing its sockets is what the kernel would do.

Every chance is drawn from the seed, the names of the two machines and the number of their connection. So a run is the
same whatever else is going on, provided that the order of trio's tasks is (which Hypothesis seeds).
"""

import errno
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from cluster.network.listener import Listeners
from simulation.link import SimulatedLink
from simulation.network_faults import NetworkFaults
from simulation.ports import DyingPort, PoisoningPool, SimulatedPort
from simulation.scheduler import Scheduler
from simulation.tcp_connection import End, TcpConnection

if TYPE_CHECKING:
    from cluster.network.connection import Dispatch
    from cluster.network.connection_quotas import ConnectionQuotas
    from cluster.network.endpoints import Endpoint
    from cluster.network.listener_security import ListenerSecurity
    from cluster.network.network_counters import NetworkCounters
    from cluster.network.open_connections import NetworkLimits

FIRST_FREE_PORT: Final = 32768
FORGET_EVERY: Final = 64
"""After this many connections between two machines, those that are over are forgotten."""
NOTES_MAX: Final = 2000
"""How many of the last events are kept to explain a failing seed."""


class SimulatedNetwork:
    """The machines, and what connects them.

    Args:
        seed: The source of all chance.
        faults: What happens by chance; only delays and splits if None.

    Attributes:
        scheduler: What is on its way, and when it arrives.
        notes: The last events, each with its time.
    """

    def __init__(self, seed: int, faults: NetworkFaults | None = None) -> None:
        self.seed = seed
        self.faults = NetworkFaults() if faults is None else faults
        self.scheduler = Scheduler()
        self.notes: deque[tuple[float, str]] = deque(maxlen=NOTES_MAX)
        self._hosts: dict[str, SimulatedHost] = {}
        self._connections: list[TcpConnection] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._isolated: set[str] = set()
        self._lost: set[str] = set()
        self._changed = trio.Event()

    async def run(self) -> NoReturn:
        """Carry what is sent, until cancelled."""
        await self.scheduler.run()

    def host(self, name: str) -> "SimulatedHost":
        """Return the machine of a name; the first call creates it."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = SimulatedHost(self, name)
        return host

    # Faults on demand.

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Hold back what `source` sends to `target`, and the reverse unless `one_way`."""
        self._cuts.add((source, target))
        if not one_way:
            self._cuts.add((target, source))
        self.note(f"cut {source} {'->' if one_way else '<->'} {target}")

    def heal(self, source: str, target: str) -> None:
        """Undo `cut`, both ways."""
        self._cuts -= {(source, target), (target, source)}
        self.note(f"heal {source} <-> {target}")
        self._resume()

    def isolate(self, name: str) -> None:
        """Hold back everything to and from a machine."""
        self._isolated.add(name)
        self.note(f"isolate {name}")

    def rejoin(self, name: str) -> None:
        """Undo `isolate`."""
        self._isolated.discard(name)
        self.note(f"rejoin {name}")
        self._resume()

    def heal_all(self) -> None:
        """Undo every cut and isolation; machines that were lost stay so."""
        self._cuts.clear()
        self._isolated.clear()
        self.note("heal everything")
        self._resume()

    def break_connections(self, first: str, second: str) -> int:
        """Break every connection between two machines; return how many there were."""
        broken = 0
        for circuit in self._live_connections():
            if circuit.touches(first) and circuit.touches(second):
                circuit.dialling.circuit_breaks()
                broken += 1
        self.note(f"break {broken} connections {first} <-> {second}")
        return broken

    def lose(self, name: str) -> None:
        """Take a machine away without notice; the caller has to end its programs."""
        self._lost.add(name)
        self.host(name).forget_listeners()
        for circuit in self._live_connections():
            for end, pipe in zip((circuit.dialling, circuit.accepting), circuit.pipes, strict=True):
                if end.host == name:
                    pipe.drop()
                    end.vanish()
        self.note(f"lose {name}")

    def restore(self, name: str) -> None:
        """Bring a machine back; it answers what still arrives for its old connections with a reset."""
        self._lost.discard(name)
        self.note(f"restore {name}")
        self._resume()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether what `source` sends does not reach `target` now."""
        if source in self._lost or target in self._lost:
            return True
        if source == target:
            return False
        return source in self._isolated or target in self._isolated or (source, target) in self._cuts

    # Connections.

    async def connect(self, source: str, target: str, port: int) -> End:
        """Connect a machine to a port of another; return the near end.

        A cut either way makes it wait, as lost handshakes do, until the caller's time-out.

        Raises:
            OSError: there is no such machine, or nobody listens there.
        """
        number = self._numbers[source, target] = self._numbers.get((source, target), 0) + 1
        near = End(source, FIRST_FREE_PORT + number)
        far = End(target, port)
        circuit = TcpConnection(self, near, far, f"{self.seed}/{source}/{target}/{number}")
        there, back = circuit.pipes
        await self._travel(source, target, there.delay())
        if target not in self._hosts:
            raise OSError(errno.EHOSTUNREACH, f"there is no machine {target}")
        if not self._hosts[target].accept(port, far):
            await self._travel(target, source, back.delay())
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._connections.append(circuit)
        if number % FORGET_EVERY == 0:
            self._live_connections()
        self.note(f"{near} connects to {far}")
        try:
            await self._travel(target, source, back.delay())
        except BaseException:
            near.close()
            raise
        return near

    def note(self, text: str) -> None:
        """Keep an event to explain a failing run."""
        try:
            now = trio.current_time()
        except RuntimeError:
            now = 0.0
        self.notes.append((now, text))

    async def _travel(self, source: str, target: str, delay_s: float) -> None:
        """Wait for the delay of one direction, and until it is not cut."""
        await trio.sleep(delay_s)
        while self.is_cut(source, target):
            await self._changed.wait()

    def _live_connections(self) -> Iterator[TcpConnection]:
        self._connections = [circuit for circuit in self._connections if not circuit.is_over]
        return iter(self._connections)

    def _resume(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        # Also connections whose ends are both closed: what they carry may still arrive.
        for circuit in self._connections:
            for pipe in circuit.pipes:
                pipe.resume()


class SimulatedHost:
    """One machine. Made by `SimulatedNetwork.host`.

    Attributes:
        name: What others dial, and what a broker on it advertises.
    """

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self._network = network
        self.name = name
        self._ports: dict[int, SimulatedPort | DyingPort] = {}
        self._last_port = FIRST_FREE_PORT - 1

    async def dial(self, host: str, port: int) -> SimulatedLink:
        """Connect to a machine: the `dial` of a `BrokerClient` that runs on this one."""
        return SimulatedLink(await self._network.connect(self.name, host, port))

    def listeners(
        self,
        endpoints: "Sequence[Endpoint]",
        dispatch: "Dispatch",
        *,
        limits: "NetworkLimits | None" = None,
        quotas: "ConnectionQuotas | None" = None,
        counters: "NetworkCounters | None" = None,
        security: "Mapping[str, ListenerSecurity] | None" = None,
    ) -> Listeners:
        """Return `Listeners` whose ports are this machine's."""
        return Listeners(
            endpoints,
            dispatch,
            limits=limits,
            quotas=quotas,
            counters=counters,
            security=security,
            open_port=partial(SimulatedPort, self),
            pool=PoisoningPool(),
        )

    def take_port(self, number: int, port: SimulatedPort) -> int:
        """Bind a port; 0 takes a free number. Return the number.

        Raises:
            OSError: the port is taken.
        """
        if number == 0:
            self._last_port += 1
            number = self._last_port
        if number in self._ports:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._ports[number] = port
        return number

    def give_back_port(self, number: int, port: SimulatedPort) -> None:
        """Release a port: connections to it are refused again."""
        if self._ports.get(number) is port:
            del self._ports[number]

    def forget_listeners(self) -> None:
        """Drop all listeners: the machine is gone."""
        self._ports.clear()

    def linger(self, number: int) -> None:
        """Accept connections to a port that no program serves any more, until `forget_listeners`."""
        self._ports[number] = DyingPort()

    def accept(self, number: int, end: End) -> bool:
        """Hand a new connection to a port; return False where it is not bound, or full."""
        port = self._ports.get(number)
        return port is not None and port.accept(end)
