"""Producer ids: none is handed out twice, and the next block is there before the last one is used up."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from cluster.coordinator.producer_ids import ProducerIds
from cluster.zookeeper.client import ZooKeeperError
from tests.unit.coordinator.in_memory import run
from wire.errors import Error


class Blocks:
    """Hands out blocks of 1000, after a moment; or fails."""

    def __init__(self) -> None:
        self.taken = 0
        self.takes_s = 0.001
        self.fails = False

    async def take(self) -> Any:
        await trio.sleep(self.takes_s)
        if self.fails:
            raise ZooKeeperError("away")
        self.taken += 1
        return SimpleNamespace(first=1000 * (self.taken - 1), last=1000 * self.taken - 1)


def run_ids(body: Callable[[ProducerIds, Blocks], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            blocks = Blocks()
            await body(ProducerIds(blocks.take, nursery), blocks)
            nursery.cancel_scope.cancel()

    run(main)


def test_the_next_block_is_taken_at_nine_tenths() -> None:
    async def body(ids: ProducerIds, blocks: Blocks) -> None:
        assert [await ids.next() for _ in range(899)] == list(range(899))
        await trio.sleep(1)
        assert blocks.taken == 1
        assert [await ids.next() for _ in range(2)] == [899, 900]
        await trio.sleep(1)
        assert blocks.taken == 2
        blocks.fails = True
        began = trio.current_time()
        # ZooKeeper is away: the present block is used up first.
        assert [await ids.next() for _ in range(1_099)] == list(range(901, 2_000))
        assert trio.current_time() == began
        assert await ids.take() is Error.COORDINATOR_LOAD_IN_PROGRESS
        blocks.fails = False
        await trio.sleep(1)
        assert await ids.take() == 2_000

    run_ids(body)


def test_many_that_ask_at_once_get_ids_of_their_own() -> None:
    async def body(ids: ProducerIds, blocks: Blocks) -> None:
        found: list[int] = []

        async def ask() -> None:
            found.append(await ids.next())

        async with trio.open_nursery() as nursery:
            for _ in range(3_500):
                nursery.start_soon(ask)
        assert sorted(found) == list(range(3_500))
        assert blocks.taken == 4

    run_ids(body)


@pytest.mark.parametrize("takes_s", [6.0, 60.0])
def test_a_client_asks_again_where_zookeeper_is_slow(takes_s: float) -> None:
    async def body(ids: ProducerIds, blocks: Blocks) -> None:
        blocks.takes_s = takes_s
        assert await ids.take() is Error.COORDINATOR_LOAD_IN_PROGRESS

    run_ids(body)
