"""Running a trio program together with the brokers of a cluster, on a clock that jumps to the next thing to do."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeVar

import trio

from ottla.testing.view import ClusterError
from ottla.testing.virtual.cluster import VirtualCluster
from simulation.cluster import SimulatedCluster
from simulation.deterministic import run_deterministically

_OWN: Final = frozenset({"broker.id", "listeners", "advertised.listeners", "log.dirs", "zookeeper.connect"})

_T = TypeVar("_T")


def run_simulated(
    program: Callable[[VirtualCluster], Awaitable[_T]],
    *,
    brokers: int,
    seed: int,
    settings: Mapping[str, str] | None,
    timeout: float,
) -> _T:
    """Run a program as `ottla.testing.simulated` says.

    Raises:
        ClusterError: the program does not end in its time, or an argument makes no sense.
    """
    chosen = dict(settings or {})
    for name in sorted(_OWN & chosen.keys()):
        raise ClusterError(f"{name} is the simulated cluster's own to set")
    if brokers < 1:
        raise ClusterError(f"a cluster cannot have {brokers} brokers")
    run = _Run(program, brokers, seed, {**_defaults(brokers), **chosen}, timeout)
    run_deterministically(run.main, seed)
    if run.failure is not None:
        raise run.failure
    return run.result[0]


def _defaults(brokers: int) -> dict[str, str]:
    copies = str(min(3, brokers))
    most = "2" if brokers > 2 else "1"
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": most,
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": most,
    }


class _Run(Generic[_T]):
    """One program and its cluster.

    Attributes:
        result: What the program returned, once it has.
        failure: What it raised.
    """

    def __init__(
        self,
        program: Callable[[VirtualCluster], Awaitable[_T]],
        brokers: int,
        seed: int,
        settings: Mapping[str, str],
        timeout: float,
    ) -> None:
        self._program = program
        self._cluster = SimulatedCluster(seed, broker_count=brokers, settings=settings)
        self._seed = seed
        self._timeout = timeout
        self.result: list[_T] = []
        self.failure: Exception | None = None

    async def main(self) -> None:
        """Start the brokers, run the program, and end everything.

        Raises:
            ExceptionGroup: a broker failed in a way that is a defect.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._cluster.run)
            await self._cluster.start()
            cluster = VirtualCluster(self._cluster, self._seed)
            await cluster.wait_whole()
            try:
                with trio.move_on_after(self._timeout) as time:
                    self.result.append(await self._program(cluster))
            except Exception as failure:  # noqa: BLE001 - it is the caller's, outside of our nursery's groups
                self.failure = failure
            if time.cancelled_caught:
                self.failure = ClusterError(
                    f"the program has not ended within {self._timeout:g} simulated seconds"
                )
            nursery.cancel_scope.cancel()
