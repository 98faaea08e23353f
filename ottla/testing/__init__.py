"""What a test of a cluster needs: a cluster to start and harm, and a checker of the cluster's promises.

Example:
    with ottla.testing.cluster() as running:
        running.create_topic("orders", partitions=3)
        running.kill(0)
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ottla.testing.history import Anomalies, History, HistoryViolationError, Mark
from ottla.testing.killable import KillableCluster
from ottla.testing.process_cluster import Cluster
from ottla.testing.view import ClusterError, ClusterView

if TYPE_CHECKING:
    from ottla.testing.virtual import VirtualCluster

__all__ = [
    "cluster",
    "simulated",
    "KillableCluster",
    "Cluster",
    "ClusterError",
    "ClusterView",
    "Anomalies",
    "History",
    "HistoryViolationError",
    "Mark",
]

_T = TypeVar("_T")


@contextmanager
def cluster(
    *, brokers: int = 3, processes: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[KillableCluster]:
    """Start a cluster, and stop it at the end of the block.

    Args:
        brokers: How many.
        processes: Whether they are processes, with a real ZooKeeper (Java is needed). Else they live in a thread of
            this process with real sockets, and are ready in a fraction of a second.
        settings: Of every broker, over the defaults, by Kafka's names.

    Raises:
        ClusterError: it cannot start.
    """
    running: KillableCluster
    if processes:
        running = Cluster.up(brokers=brokers, overrides=settings)
    else:
        from ottla.testing.in_process import InProcessCluster  # a broker is a large import

        running = InProcessCluster.up(brokers=brokers, settings=settings)
    try:
        yield running
    finally:
        running.down()


def simulated(
    program: "Callable[[VirtualCluster], Awaitable[_T]]",
    *,
    brokers: int = 3,
    seed: int = 0,
    settings: Mapping[str, str] | None = None,
    timeout: float = 3600.0,
) -> _T:
    """Run a trio program with a cluster of its own, in simulated time.

    The brokers are Ottla's own, from the frame that comes in to the file that is written; clock, network, disks and
    ZooKeeper are simulated. Time passes only while everything waits, so that a session timeout or an hour of retention
    takes no longer than the work done in that time. The program must not wait for anything outside: no sockets, no
    threads.

    Args:
        program: What to run; its argument is the cluster, with every replica in sync. Cancelled when its time is over.
        brokers: How many.
        seed: Of all randomness: delays, the order of tasks, what a loss of power leaves. The same seed gives the same
            run if ``PYTHONHASHSEED`` is the same, too.
        settings: Of every broker, over the defaults, by Kafka's names.
        timeout: How long the program may take, in simulated seconds.

    Returns:
        What the program returns. What it raises is raised as it is.

    Raises:
        ClusterError: the program does not end in its time, or an argument makes no sense.
    """
    from ottla.testing.virtual import run_simulated  # the simulation is a large import

    return run_simulated(program, brokers=brokers, seed=seed, settings=settings, timeout=timeout)
