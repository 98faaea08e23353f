"""A partition and its task: batches, turns, and what a cancellation leaves behind."""

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from ottla.client import runtime
from ottla.client.fetch_settings import FetchSettings
from ottla.client.group_partitions import OwnedPartition, Partition
from ottla.client.stalls import Asking
from wire.types import TopicPartition


class Given:
    """A batch that only records that it was done."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> None:
        self.is_done = True


class Task:
    """A partition with some batches, and one turn that tests can take."""

    def __init__(self, batches: int) -> None:
        self.turns = runtime.new_limiter(1)
        self.asking = Asking()
        self.owned = OwnedPartition(TopicPartition("t", 0), None, _ignore)
        self.batches = [Given() for _ in range(batches)]
        self.owned.parts.extend(self.batches)  # type: ignore[arg-type]  # they stand for batches
        fetcher: Any = FetchSettings()  # not used
        self.partition: Partition[bytes, bytes] = Partition(
            self.owned, fetcher, _take, trio.lowlevel.checkpoint, self.turns, self.asking, done_by_next=True
        )


def _ignore(_: OwnedPartition) -> None:
    return None


def _take(owned: OwnedPartition) -> Any:
    return owned.parts.popleft() if owned.parts and not owned.draining else None


async def cancelled_while_blocked(call: Callable[[], Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def test_a_wait_for_a_turn_that_is_cancelled_loses_no_batch() -> None:
    async def main() -> None:
        task = Task(2)
        await task.turns.acquire_on_behalf_of("another")
        for _ in range(100):
            await cancelled_while_blocked(task.partition.__anext__)
        task.turns.release_on_behalf_of("another")
        assert [await anext(task.partition), await anext(task.partition)] == task.batches
        assert task.batches[0].is_done
        assert task.turns.statistics().borrowers == [task.partition]

    trio.run(main)


def test_a_wait_for_a_batch_that_is_cancelled_loses_none() -> None:
    async def main() -> None:
        task = Task(0)
        for _ in range(100):
            await cancelled_while_blocked(task.partition.__anext__)
            assert not task.asking.is_going_on
        assert task.turns.statistics().borrowers == []
        batch = Given()
        task.owned.parts.append(batch)  # type: ignore[arg-type]  # it stands for a batch
        assert await anext(task.partition) is batch

    trio.run(main)


def test_it_ends_when_it_must_be_released_and_returns_its_turn() -> None:
    async def main() -> None:
        task = Task(1)
        await anext(task.partition)
        task.owned.draining = True
        assert [each async for each in task.partition] == []
        assert task.turns.statistics().borrowers == []

    trio.run(main)


def test_asking_is_going_on_while_any_task_waits() -> None:
    async def main() -> None:
        asking = Asking()
        came = asking.next_time()
        with asking:
            assert came.is_set()
            with asking:
                assert asking.is_going_on
            assert asking.is_going_on
            async with trio.open_nursery() as nursery:
                nursery.start_soon(asking.wait_ended)
                await trio.testing.wait_all_tasks_blocked()
                asking.__exit__(None, None, None)
            assert not asking.is_going_on
            asking.__enter__()
        assert not asking.is_going_on
        assert asking.since <= trio.current_time()

    trio.run(main)
