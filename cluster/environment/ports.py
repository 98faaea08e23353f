"""What a broker needs of the world: time, disk, network, ZooKeeper, chance. A simulation brings its own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

import trio

from cluster.network.dialling import Dial
from cluster.network.listener import Listeners
from cluster.network.offloads import Offload, Offloads
from cluster.zookeeper.client import ZooKeeper
from storage.compaction.cleaning_worker import CleaningWorker, worker_process
from storage.disk import Disk
from timing.clock import Clock

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.zookeeper.session_closer import SessionKey


class Session(ZooKeeper, Protocol):
    """A ZooKeeper session that its broker keeps up, and that others can close by its key."""

    @property
    def session_key(self) -> "SessionKey":
        """What it takes to close the session."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, report that as started, and keep the session until cancelled; then close it."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """The world of one broker.

    Attributes:
        clock: Wall and monotonic time.
        disk: Where logs lie.
        open_session: Makes a session with the ZooKeeper of a configuration; the broker runs it.
        dial: Connects to other brokers.
        make_listeners: Makes what clients and brokers come in by; `Listeners`, or what stands for it.
        close_session: Closes the session of a broker that is dead; returns whether ZooKeeper confirmed that.
        offloads: Run slow operations beside the loop, each kind by itself.
        offload_abandoned: Runs what may be left to itself where it is cancelled.
        random: Where assignments of replicas start, and the numbers of fetch sessions.
        has_files: Whether the disk is the machine's: sockets and session records can be made in its
            directories.
        cleaning_worker: Makes what compacts one log, on that disk.
    """

    clock: Clock
    disk: Disk
    open_session: "Callable[[BrokerConfig], Session]"
    dial: Dial
    close_session: "Callable[[SessionKey], Awaitable[bool]]"
    make_listeners: Callable[..., Listeners]
    offloads: Offloads
    offload_abandoned: Offload
    random: Random
    has_files: bool = True
    cleaning_worker: Callable[[], CleaningWorker] = worker_process
