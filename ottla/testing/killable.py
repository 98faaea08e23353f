"""What a test can do to a cluster, whether its brokers are processes or run inside the test's own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ottla.testing.view import ClusterView


class KillableCluster(Protocol):
    """A cluster of one test session. Every method blocks its thread until the action is complete.

    Raises of every method:
        ClusterError: it cannot be done; the text says why.
    """

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's ``bootstrap.servers``."""
        ...

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The brokers, running or not."""
        ...

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """End brokers as SIGKILL does; with `host`, nothing is left to close their ZooKeeper sessions."""
        ...

    def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns."""
        ...

    def start(self, *broker_ids: int) -> None:
        """Start brokers again, on their data; all by default."""
        ...

    def pause(self, *broker_ids: int) -> None:
        """Pause brokers, with their connections open."""
        ...

    def resume(self, *broker_ids: int) -> None:
        """Let paused brokers go on."""
        ...

    def cut(
        self,
        broker_id: int,
        others: Sequence[int] | None = None,
        *,
        zookeeper: bool = False,
        clients: bool = False,
    ) -> None:
        """Cut the network around a broker."""
        ...

    def full_disk(self, broker_id: int) -> None:
        """Leave no space on a broker's disk."""
        ...

    def expire_session(self, broker_id: int) -> None:
        """End a broker's ZooKeeper session."""
        ...

    def heal(self, *broker_ids: int) -> None:
        """Undo pauses, cuts and full disks; of all brokers, if none is named."""
        ...

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition has a leader."""
        ...

    def delete_topics(self, *names: str) -> None:
        """Delete topics; missing topics are no error."""
        ...

    def reset(self) -> None:
        """Return the cluster to its initial state."""
        ...

    def view(self) -> ClusterView:
        """Ask every broker that answers."""
        ...

    def wait(self, condition: Callable[[ClusterView], bool], timeout_s: float = ...) -> ClusterView:
        """Look at the cluster until a condition holds, and return what was seen."""
        ...

    def down(self) -> None:
        """End everything."""
        ...
