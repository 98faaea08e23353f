"""What a broker needs from the world: time, disk, network, ZooKeeper, randomness. A simulation supplies its own."""

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
        """The key that closes the session."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, report that as started, and keep the session until cancelled; then close it."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """The world of one broker.

    Attributes:
        clock: Wall and monotonic time.
        disk: Where logs are stored.
        open_session: Makes a session with the ZooKeeper of a configuration; the broker runs it.
        dial: Connects to other brokers.
        make_listeners: Makes the listeners for clients and brokers: `Listeners`, or a simulated one.
        close_session: Closes the session of a broker that is dead; returns whether ZooKeeper confirmed that.
        offloads: Run slow operations outside the loop, each kind separately.
        offload_abandoned: Runs slow operations that may go on unattended when their caller is cancelled.
        random: Chooses where assignments of replicas start, and the ids of fetch sessions.
        has_files: Whether the disk is the machine's: sockets and session records can be made in its
            directories.
        cleaning_worker: Makes the worker that compacts one log on that disk.
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
