"""A transaction coordinator is paused for longer than its session, and then goes on as if nothing had happened.

Another one has taken over meanwhile and has decided the open transaction; the producer is in its next one, of the same
epoch. Nothing that the old coordinator still sends or writes may end that, or change a decision.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from simulation.cluster import SimulatedCluster
from tests.simulation.test_broker import know_each_other
from tests.simulation.test_late_end_of_transaction import connect, end, ended, send_late
from tests.simulation.test_transactions import SETTINGS, SOURCE, TARGET, create, go_on, pause
from tests.simulation.transactional_client import Transformer
from wire.errors import Error

PATIENT = SETTINGS | {
    # A paused process closes no connection on a timeout either.
    "request.timeout.ms": "60000",
    # Every broker coordinates some ids.
    "transaction.state.log.num.partitions": "6",
}


def run(seed: int, story: Callable[[SimulatedCluster, trio.Nursery, Transformer], Awaitable[None]]) -> None:
    """Begin a transaction whose coordinator leads none of its partitions, and run a story with it."""

    async def main() -> None:
        cluster = SimulatedCluster(seed, settings=PATIENT)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            await create(cluster)
            target = f"{TARGET}-0"
            for number in range(100):
                producer = Transformer(cluster, f"t-{number}", (SOURCE, 0), target, 0)
                producer.transaction_timeout_ms = 600_000
                await producer.initialise()
                leaders = {producer.leader(target, partition) for partition in (0, 1)}
                if await producer.coordinator(1, producer.name) not in leaders:
                    break
            else:
                raise AssertionError("whatever the id, its coordinator leads a partition of the target")
            await producer.begin()
            await producer.produce(0, [b"first"])
            with trio.fail_after(300):
                await story(cluster, nursery, producer)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def other_coordinator(cluster: SimulatedCluster, producer: Transformer, than: int) -> None:
    """Wait until another broker coordinates the producer's transactions."""
    while await producer.coordinator(1, producer.name) in (than, -1):  # noqa: ASYNC110 - polled by requests
        await trio.sleep(0.1)


@pytest.mark.parametrize("seed", range(3))
def test_markers_of_a_paused_coordinator_end_nothing_of_the_next_transaction(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(cluster: SimulatedCluster, nursery: trio.Nursery, producer: Transformer) -> None:
        paused = await producer.coordinator(1, producer.name)
        machine = cluster.machines[paused]  # type: ignore[index]
        markers = cluster.running()[paused]._components.context.transactions.markers  # type: ignore[index]
        send, settle = markers.send, markers._settle
        refusals: list[Error] = []

        def stand_still(*arguments: Any) -> None:
            """Pause between the decision, which all replicas have, and the markers."""
            pause(cluster, machine)
            send(*arguments)

        def note(marker: Any, error: Error) -> None:
            refusals.append(error)
            settle(marker, error)

        monkeypatch.setattr(markers, "send", stand_still)
        monkeypatch.setattr(markers, "_settle", note)
        late: list[Error | None] = []
        slow = cluster.client(paused, host="slow", timeout_s=600.0)
        nursery.start_soon(send_late, slow, end(producer, commit=True), late)
        await other_coordinator(cluster, producer, paused)
        assert await ended(producer, commit=True) is Error.NONE
        await producer.begin()
        await producer.produce(0, [b"second"])
        go_on(cluster, machine)
        while not refusals:  # noqa: ASYNC110 - the answers to its markers
            await trio.sleep(0.1)
        await know_each_other(cluster)
        assert Error.NONE not in refusals
        assert set(late) <= {Error.NONE, Error.NOT_COORDINATOR}
        assert await ended(producer, commit=False) is Error.NONE
        values, _, _ = await producer.read_committed(f"{TARGET}-0", 0)
        assert values == [b"first"]

    run(seed, story)


@pytest.mark.parametrize("seed", range(3))
def test_a_paused_coordinator_decides_nothing_when_it_goes_on(seed: int) -> None:
    async def story(cluster: SimulatedCluster, nursery: trio.Nursery, producer: Transformer) -> None:
        paused = await producer.coordinator(1, producer.name)
        machine = cluster.machines[paused]  # type: ignore[index]
        slow = cluster.client(paused, host="slow", timeout_s=600.0)
        await connect(slow, producer)
        pause(cluster, machine)
        late: list[Error | None] = []
        nursery.start_soon(send_late, slow, end(producer, commit=True), late)
        await other_coordinator(cluster, producer, paused)
        assert await ended(producer, commit=False) is Error.NONE
        await producer.begin()
        await producer.produce(0, [b"second"])
        go_on(cluster, machine)
        while not late:  # noqa: ASYNC110 - the answer to the request that waited
            await trio.sleep(0.1)
        assert late == [Error.NOT_COORDINATOR]
        await know_each_other(cluster)
        assert await ended(producer, commit=True) is Error.NONE
        values, _, _ = await producer.read_committed(f"{TARGET}-0", 0)
        assert values == [b"second"]

    run(seed, story)
