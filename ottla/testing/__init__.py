"""What a test of a cluster needs: a cluster to start and harm, and a checker of what it promised.

Example:
    with ottla.testing.cluster() as running:
        running.create_topic("orders", partitions=3)
        running.kill(0)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ottla.testing.history import Anomalies, History, HistoryViolationError, Mark
from ottla.testing.killable import KillableCluster
from ottla.testing.process_cluster import Cluster
from ottla.testing.view import ClusterError, ClusterView

__all__ = [
    "cluster",
    "KillableCluster",
    "Cluster",
    "ClusterError",
    "ClusterView",
    "Anomalies",
    "History",
    "HistoryViolationError",
    "Mark",
]


@contextmanager
def cluster(
    *, brokers: int = 3, processes: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[KillableCluster]:
    """Start a cluster, and end it with the block.

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
