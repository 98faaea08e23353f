"""One connection of a simulated network: two ends, and a pipe in each direction between them.

A pipe keeps TCP's promises and no more: bytes arrive whole and in order, but late, in other pieces than they were sent
in, or not at all once the connection has broken. A cut in the network holds them back; when it heals they arrive,
though the sender may have closed its end long ago and asked another peer. That late arrival is what makes a retry
dangerous, so it is here too.
"""

import errno
import os
from collections import deque
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Final, Protocol

import trio

from simulation.network_faults import NetworkFaults
from simulation.scheduler import Scheduler

WINDOW: Final = 1024 * 1024
"""Bytes that may be sent without having been received by the other side's program."""


class Network(Protocol):
    """What carries a connection; `SimulatedNetwork` does.

    Attributes:
        faults: What happens by chance.
        scheduler: What is on its way, and when it arrives.
    """

    faults: NetworkFaults
    scheduler: Scheduler

    def is_cut(self, source: str, target: str) -> bool:
        """Whether what one machine sends to another is held back."""
        ...

    def note(self, text: str) -> None:
        """Keep an event, for those who explain a failing seed."""
        ...


class Signal(Enum):
    """What travels besides bytes."""

    END = "end"  # the sender has closed; what it sent before comes before
    RESET = "reset"  # the connection is broken; what was on its way is lost


class Pipe:
    """One direction of one connection."""

    __slots__ = ("_chance", "_items", "_last_due", "_network", "far", "in_flight", "near")

    def __init__(self, network: Network, near: "End", far: "End", chance: Random) -> None:
        self._network = network
        self._chance = chance
        self._items: deque[tuple[float, bytes | Signal]] = deque()
        self._last_due = 0.0
        self.near = near
        self.far = far
        self.in_flight = 0

    def send(self, data: bytes) -> None:
        """Send bytes on their way; the network's faults may split or delay them, or break the connection."""
        faults = self._network.faults
        chance = self._chance
        self.in_flight += len(data)
        if chance.random() < faults.reset_chance:
            self._network.note(f"{self.near} -> {self.far} breaks by chance")
            self.near.circuit_breaks()
            return
        if len(data) > 1 and chance.random() < faults.split_chance:
            middle = chance.randrange(1, len(data))
            self._put(data[:middle])
            data = data[middle:]
        self._put(data)

    def signal(self, signal: Signal) -> None:
        """Put the end, or the break, of the connection on its way; a break overtakes what is on its way."""
        if signal is Signal.RESET:
            self.drop()
        self._put(signal)

    def drop(self) -> None:
        """Lose what is on its way."""
        self._items.clear()
        self.in_flight = 0

    def consumed(self, count: int) -> None:
        """Make room: the far program has received bytes."""
        self.in_flight = max(0, self.in_flight - count)
        self.near.room()

    def deliver(self) -> None:
        """Hand over what is due, unless the direction is cut; called by the scheduler, and when a cut heals."""
        now = trio.current_time()
        items = self._items
        while items and items[0][0] <= now:
            if self._network.is_cut(self.near.host, self.far.host):
                return
            _, item = items.popleft()
            if isinstance(item, Signal):
                self.far.signalled(item)
            else:
                self.far.arrived(item)

    def resume(self) -> None:
        """Deliver what a healed cut held back, after a new delay, in order."""
        if self._items:
            self._network.scheduler.at(trio.current_time() + self.delay(), self.deliver)

    def _put(self, item: bytes | Signal) -> None:
        due = max(self._last_due, trio.current_time() + self.delay())
        self._last_due = due
        self._items.append((due, item))
        self._network.scheduler.at(due, self.deliver)

    def delay(self) -> float:
        """Draw how long the next send takes, in seconds."""
        faults = self._network.faults
        chance = self._chance
        delay = chance.uniform(*faults.delay_s)
        if chance.random() < faults.stall_chance:
            delay += chance.uniform(*faults.stall_s)
        return delay


class End:
    """One end of a connection, in the manner of a non-blocking socket.

    Attributes:
        host: The machine that it is on.
        port: The port: the listener's on one end, an arbitrary one on the other.
        closed: Whether this side has closed it, or lost its machine.
        on_room: Called when `send` can take more than before.
    """

    __slots__ = (
        "_broken",
        "_ended",
        "_incoming",
        "_outgoing",
        "_readable",
        "_received",
        "_roomy",
        "closed",
        "host",
        "on_room",
        "port",
    )

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.closed = False
        self.on_room: Callable[[], None] | None = None
        self._incoming: Pipe
        self._outgoing: Pipe
        self._received = bytearray()
        self._ended = False
        self._broken = False
        self._readable = trio.lowlevel.ParkingLot()
        self._roomy = trio.lowlevel.ParkingLot()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def peer(self) -> "End":
        """The other end."""
        return self._outgoing.far

    @property
    def is_over(self) -> bool:
        """Whether the other side has ended or broken the connection; what it sent before may be unread."""
        return self._ended or self._broken

    # As a program uses it.

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send what there is room for; return how much, which may be nothing.

        Raises:
            OSError: the connection is broken, or closed on this side.
        """
        self._check()
        count = min(len(data), WINDOW - self._outgoing.in_flight)
        if count <= 0:
            return 0
        self._outgoing.send(bytes(data[:count]))
        return count

    def receive_into(self, space: memoryview) -> int | None:
        """Receive what has come; None if nothing has, 0 if nothing more will.

        Raises:
            OSError: the connection is broken, or closed on this side.
        """
        self._check()
        count = min(len(space), len(self._received))
        if count == 0:
            return 0 if self._ended else None
        space[:count] = self._received[:count]
        del self._received[:count]
        self._incoming.consumed(count)
        return count

    async def wait_readable(self) -> None:
        """Wait until `receive_into` has something to return.

        Raises:
            trio.ClosedResourceError: it is or was closed on this side.
        """
        await trio.lowlevel.checkpoint()
        while not (self._received or self._ended or self._broken or self.closed):
            await self._readable.park()
        if self.closed:
            raise trio.ClosedResourceError

    async def wait_writable(self) -> None:
        """Wait until `send` takes something, or raises. Raises as `wait_readable`."""
        await trio.lowlevel.checkpoint()
        while self._outgoing.in_flight >= WINDOW and not (self._broken or self.closed):
            await self._roomy.park()
        if self.closed:
            raise trio.ClosedResourceError

    def close(self) -> None:
        """Close this side; what was sent still arrives. May be called again."""
        if not self.closed:
            self.vanish()
            if not self._broken:
                self._outgoing.signal(Signal.END)

    # As the network uses it.

    def connect(self, incoming: Pipe, outgoing: Pipe) -> None:
        """Set the end's pipes; called once."""
        self._incoming = incoming
        self._outgoing = outgoing

    def arrived(self, data: bytes) -> None:
        """Take bytes that have arrived."""
        if self._broken:
            return
        if self.closed:
            # Bytes for a program that is gone are answered with a reset.
            self._broken = True
            self._outgoing.signal(Signal.RESET)
        else:
            self._received += data
            self._readable.unpark_all()

    def signalled(self, signal: Signal) -> None:
        """Take note that the other side has ended or broken the connection."""
        if signal is Signal.END:
            self._ended = True
        else:
            self._broken = True
            self._incoming.drop()
        self._readable.unpark_all()
        self.room()

    def room(self) -> None:
        """Take note that the other program has received something."""
        self._roomy.unpark_all()
        if self.on_room is not None and not self.closed:
            self.on_room()

    def circuit_breaks(self) -> None:
        """Break the connection: each side notices after a delay."""
        self._incoming.signal(Signal.RESET)
        self._outgoing.signal(Signal.RESET)

    def vanish(self) -> None:
        """Close this side silently: its machine is gone."""
        self.closed = True
        self._received.clear()
        self._readable.unpark_all()
        self._roomy.unpark_all()

    def _check(self) -> None:
        if self._broken:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if self.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class TcpConnection:
    """One connection.

    Args:
        network: The network that carries it.
        dialling: The end that asked for it.
        accepting: The end that was asked.
        seed: The source of its chance.
    """

    __slots__ = ("accepting", "dialling", "pipes")

    def __init__(self, network: Network, dialling: End, accepting: End, seed: str) -> None:
        self.dialling = dialling
        self.accepting = accepting
        # Each direction has its own generator, so that it draws the same in whatever order the others send.
        there = Pipe(network, dialling, accepting, Random(seed + "/there"))
        back = Pipe(network, accepting, dialling, Random(seed + "/back"))
        self.pipes = (there, back)
        dialling.connect(back, there)
        accepting.connect(there, back)

    @property
    def is_over(self) -> bool:
        """Whether neither side uses it any more."""
        return self.dialling.closed and self.accepting.closed

    def touches(self, host: str) -> bool:
        """Whether one of its ends is on a machine."""
        return host in (self.dialling.host, self.accepting.host)
