"""A fetch of records that are on disk only: it waits for the disk, and nobody else does."""

import trio

from simulation.cluster import SimulatedCluster
from tests.simulation.kill_at_every_write import tell
from tests.simulation.producing import Producing
from wire.messages.api_versions import ApiVersionsRequest

DISK_S = 0.7
REPLICAS = [0, 1, 2]


class ColdFetch(Producing):
    """Restarted brokers, which have looked up nothing in their logs yet; the leader's disk is slow."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self.took_s: dict[str, float] = {}

    async def prepare(self, nursery: trio.Nursery) -> None:
        await self.create(REPLICAS)
        async with trio.open_nursery() as producing:
            producing.start_soon(self.produce)
            await self.cluster.wait(lambda: len(self.acknowledged) >= 5)
            producing.cancel_scope.cancel()
        for broker in REPLICAS:
            await self.cluster.stop(broker)
            await self.cluster.start(broker)
            await self.cluster.wait(lambda: len(self.partition(self.leader()).get("isr", ())) == 3)

    async def act(self) -> None:
        self.cluster.machines[self.leader()].work_delay_s = DISK_S
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timed, "the fetch", self._read)
            await trio.sleep(DISK_S / 2)
            nursery.start_soon(self._timed, "another", self._ask_versions)
        await self._timed("the next fetch", self._read)

    def is_done(self) -> bool:
        return len(self.took_s) == 3

    async def check(self) -> None:
        assert self.took_s["the fetch"] >= DISK_S
        assert self.took_s["another"] < 0.1
        assert self.took_s["the next fetch"] < 0.1

    async def _ask_versions(self) -> object:
        return await self.ask(self.leader(), ApiVersionsRequest(), 0)

    async def _timed(self, name, read) -> None:
        began = trio.current_time()
        assert await read()
        self.took_s[name] = trio.current_time() - began


def test_only_the_reader_of_old_records_waits_for_the_disk() -> None:
    tell(ColdFetch, 1)
