"""A disk that does not answer one kind of work does not hold up the others."""

import threading
from functools import partial

import trio
import trio.testing

from cluster.network.offloads import in_threads
from tests.unit.replication.in_memory import FakeBroker, leader_and_isr
from wire.errors import Error

MANY = 50
"""More than trio's own limiter has threads."""


def test_roles_are_taken_while_reads_and_flushes_hang() -> None:
    broker = FakeBroker()
    disk_answers = threading.Event()

    async def main() -> list[Error]:
        offloads = broker.offloads = in_threads()
        broker.replicas = broker.make_replicas()
        async with trio.open_nursery() as nursery:
            for hung in (offloads.reads, offloads.syncs, offloads.tidying):
                for _ in range(MANY):
                    nursery.start_soon(partial(hung, disk_answers.wait))
            await trio.testing.wait_all_tasks_blocked()
            try:
                with trio.fail_after(10):
                    request = leader_and_isr(1, (1,), (1,), 1, range(3), is_new=True)
                    response = await broker.replicas.roles.become_leader_or_follower(request, 7)
            finally:
                disk_answers.set()
        return [Error(one.error_code) for one in response.topics[0].partition_errors]

    assert trio.run(main) == [Error.NONE] * 3


def test_what_hangs_leaves_names_to_be_looked_up() -> None:
    disk_answers = threading.Event()

    async def main() -> None:
        offloads = in_threads()
        async with trio.open_nursery() as nursery:
            for hung in offloads:
                for _ in range(MANY):
                    nursery.start_soon(partial(hung, disk_answers.wait))
            await trio.testing.wait_all_tasks_blocked()
            try:
                with trio.fail_after(10):
                    await trio.to_thread.run_sync(int)
            finally:
                disk_answers.set()

    trio.run(main)
