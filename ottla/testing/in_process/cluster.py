"""A cluster in a thread of the test's process, for clients in any language, event loop or thread.

Example:
    with InProcessCluster.up(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.kill(0)
        cluster.wait(lambda seen: seen.leader("orders", 0) not in (-1, 0))
        cluster.start(0)
"""

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, TypeVarTuple

import trio

from ottla.testing.in_process.brokers import InProcessBrokers, Plan
from ottla.testing.view import (
    WAIT_TIMEOUT_S,
    ClusterError,
    ClusterView,
    all_in_sync,
    all_led,
    replicas_of_topic,
    wait_for,
)

CALL_TIMEOUT_S: Final = 60.0

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


class InProcessCluster:
    """Brokers in a thread of this process, with real sockets on 127.0.0.1 and ZooKeeper as an object.

    Every method can be called from any thread, and blocks it until the action is complete. Made by `up`.

    Attributes:
        broker_ids: The brokers, running or not.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._thread = threading.Thread(target=self._run, name="ottla-cluster", daemon=True)
        self._started: Future[None] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._brokers: InProcessBrokers | None = None
        self._failure: BaseException | None = None
        self.broker_ids: tuple[int, ...] = tuple(range(len(plan.ports)))

    @classmethod
    def up(
        cls,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        ports: Sequence[int] | None = None,
    ) -> Self:
        """Start a cluster, and return it when all its brokers serve.

        Args:
            brokers: How many.
            settings: Of every broker, over the defaults, by Kafka's names.
            ports: The brokers' ports; free ones by default.

        Raises:
            ClusterError: it cannot start; the text says why.
        """
        if brokers < 1 or (ports is not None and len(ports) != brokers):
            raise ClusterError(f"{brokers} brokers cannot be started on the ports {ports}")
        directory = Path(tempfile.mkdtemp(prefix="ottla-"))
        cluster = cls(Plan(directory, tuple(ports or [0] * brokers), dict(settings or {})))
        cluster._thread.start()
        try:
            cluster._started.result(CALL_TIMEOUT_S)
        except BaseException as failure:
            cluster.down()
            if isinstance(failure, Exception):
                raise ClusterError(f"the cluster does not start: {_reason(failure)}") from failure
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's ``bootstrap.servers``: ``host:port`` of every broker, running or not."""
        return self._require().bootstrap_servers

    def down(self) -> None:
        """End all brokers at once, and remove their data. Can be called again."""
        if self._token is not None and self._nursery is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        if self._thread.is_alive():
            self._thread.join()
        shutil.rmtree(self._plan.directory, ignore_errors=True)

    # Lives

    def start(self, *broker_ids: int) -> None:
        """Start brokers that were killed or stopped, on their data, and wait until they serve; all by default."""
        self._call(self._require().start, *(broker_ids or self.broker_ids))

    def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns."""
        self._call(self._require().stop, *broker_ids)

    def kill(self, *broker_ids: int, host: bool = False) -> None:
        """End brokers as SIGKILL does.

        Args:
            broker_ids: Which.
            host: Their hosts die with them, so that nothing closes their ZooKeeper sessions.
        """
        brokers = self._require()
        self._call(lambda: brokers.kill(*broker_ids, host=host))

    def pause(self, *broker_ids: int) -> None:
        """Pause brokers: connections stay open, nothing is read or answered, and ZooKeeper gets nothing from them."""
        self._call(self._require().pause, *broker_ids)

    def resume(self, *broker_ids: int) -> None:
        """Let paused brokers go on."""
        self._call(self._require().resume, *broker_ids)

    # Faults

    def cut(
        self,
        broker_id: int,
        others: Sequence[int] | None = None,
        *,
        zookeeper: bool = False,
        clients: bool = False,
    ) -> None:
        """Cut the network around a broker, without a reset: what is sent waits until the network is healed.

        Args:
            broker_id: The broker.
            others: The brokers to cut it off from, in both directions; all by default, none if empty.
            zookeeper: Whether it is cut off from ZooKeeper, too.
            clients: Whether it is cut off from all clients, too.
        """
        brokers = self._require()
        self._call(lambda: brokers.cut(broker_id, others, zookeeper=zookeeper, clients=clients))

    def full_disk(self, broker_id: int) -> None:
        """Leave no space on a broker's disk; the broker takes the directory offline at its next write."""
        self._call(self._require().fill_disk, broker_id)

    def expire_session(self, broker_id: int) -> None:
        """End a broker's ZooKeeper session, as if it had been silent for too long."""
        self._call(self._require().expire_session, broker_id)

    def heal(self, *broker_ids: int) -> None:
        """Undo pauses, cuts and full disks of some brokers; of all, if none is named.

        A broker that took its only directory offline has stopped: `start` it again.
        """
        self._call(self._require().heal, *broker_ids)

    # Contents

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every partition has a leader.

        Args:
            name: Its name.
            partitions: How many.
            replicas: Of each; three, or as many as there are brokers, by default.
            configs: Its settings, by Kafka's names.

        Raises:
            ClusterError: it cannot be created.
        """
        count = replicas_of_topic(replicas, self.broker_ids)
        self._call(self._require().create_topic, name, partitions, count, dict(configs or {}))
        self.wait(all_led(name, partitions))

    def delete_topics(self, *names: str) -> None:
        """Delete topics, and wait until nothing is left of them; missing topics are no error."""
        self._call(self._require().delete_topics, names)

    def reset(self) -> None:
        """Return the cluster to its initial state: all brokers up, no fault, no topic, no group, no setting.

        Connections of clients break.
        """
        self._call(self._require().reset)

    def view(self) -> ClusterView:
        """Ask every broker that answers."""
        brokers = self._require()

        async def describe() -> ClusterView:
            await trio.lowlevel.checkpoint()
            return ClusterView(brokers.describe())

        return self._call(describe)

    def wait(
        self, condition: Callable[[ClusterView], bool], timeout_s: float = WAIT_TIMEOUT_S
    ) -> ClusterView:
        """Look at the cluster until a condition holds, and return what was seen.

        Raises:
            ClusterError: it does not hold in time.
        """
        return wait_for(self.view, condition, timeout_s)

    def wait_in_sync(self, topic: str, partitions: int = 1, replicas: int | None = None) -> ClusterView:
        """Wait until every partition of a topic has all its replicas in sync."""
        count = replicas_of_topic(replicas, self.broker_ids)
        return self.wait(all_in_sync(topic, partitions, count))

    # The thread

    def _require(self) -> InProcessBrokers:
        if self._brokers is None or not self._thread.is_alive():
            reason = "" if self._failure is None else f": {_reason(self._failure)}"
            raise ClusterError(f"the cluster is down{reason}")
        return self._brokers

    def _run(self) -> None:
        try:
            trio.run(self._main, strict_exception_groups=True)
        except BaseException as failure:  # noqa: BLE001 - the thread ends here; its next caller learns why
            self._failure = failure
            if not self._started.done():
                self._started.set_exception(failure)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._brokers = InProcessBrokers(self._plan)
            await nursery.start(self._brokers.run)
            self._started.set_result(None)

    def _call(self, operation: Callable[[*_Arguments], Awaitable[_T]], *arguments: *_Arguments) -> _T:
        """Run a function in the cluster's event loop, and wait for it.

        Raises:
            ClusterError: it fails, or takes more than a minute, or the cluster is down.
        """
        done: Future[_T] = Future()

        async def carry_out() -> None:
            try:
                done.set_result(await operation(*arguments))
            except trio.Cancelled:
                done.set_exception(ClusterError("the cluster was ended meanwhile"))
                raise
            except Exception as failure:  # noqa: BLE001 - it is the caller's
                done.set_exception(failure)

        def begin() -> None:
            assert self._nursery is not None
            self._nursery.start_soon(carry_out)

        assert self._token is not None
        try:
            self._token.run_sync_soon(begin)
        except trio.RunFinishedError:
            raise ClusterError("the cluster is down") from self._failure
        try:
            return done.result(CALL_TIMEOUT_S)
        except TimeoutError:
            raise ClusterError(f"it is not done within {CALL_TIMEOUT_S:g} s") from None


def _reason(failure: BaseException) -> str:
    """Return the innermost exceptions of a group, in one line."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return str(failure) or type(failure).__name__
