"""An EndTxn that arrives after its transaction: KAFKA-17754, and which clients are safe from it.

A producer repeats an EndTxn that is not answered, on another connection, and begins its next transaction. Then the
first request arrives. It names producer and epoch, which are the same in both transactions, so it ends the second one.
"""

from typing import NamedTuple

import pytest
import trio
import trio.testing

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from simulation.cluster import SimulatedCluster
from tests.simulation.test_broker import know_each_other
from tests.simulation.test_transactions import SETTINGS, SOURCE, TARGET, create
from tests.simulation.transactional_client import Transformer
from wire.errors import Error
from wire.messages.end_txn import EndTxnRequest


class Outcome(NamedTuple):
    """The answers to the late request and to the abort, and what readers of committed data see."""

    late: Error | None
    abort: Error
    values: list[bytes]


def tell(seed: int, *, closes: bool, new_epoch: bool) -> Outcome:
    """Commit one transaction with a repeated EndTxn, begin another, let the late EndTxn arrive, and abort.

    Args:
        seed: Of the simulation.
        closes: Whether the client closes the connection of the unanswered request.
        new_epoch: Whether the client asks for a new epoch after the unanswered request.
    """
    outcomes: list[Outcome] = []

    async def main() -> None:
        cluster = SimulatedCluster(seed, settings=SETTINGS)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            await know_each_other(cluster)
            await create(cluster)
            producer = Transformer(cluster, "t", (SOURCE, 0), f"{TARGET}-0", 0)
            await producer.initialise()
            await producer.begin()
            await producer.produce(0, [b"first"])
            coordinator = await producer.coordinator(1, "t")
            name = f"broker-{coordinator}"
            slow = cluster.client(coordinator, host="slow", timeout_s=1.0 if closes else 600.0)
            await connect(slow, producer)
            cluster.network.cut("slow", name, one_way=True)
            late: list[Error | None] = []
            nursery.start_soon(send_late, slow, end(producer, commit=True), late)
            await trio.sleep(2)
            assert await ended(producer, commit=True) is Error.NONE
            if new_epoch:
                await producer.initialise()
            await producer.begin()
            await producer.produce(0, [b"second"])
            cluster.network.heal("slow", name)
            await trio.sleep(2)
            abort = await ended(producer, commit=False)
            values, _, _ = await producer.read_committed(f"{TARGET}-0", 0)
            outcomes.append(Outcome(late[0], abort, values))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return outcomes[0]


def end(producer: Transformer, *, commit: bool) -> EndTxnRequest:
    producer_id, epoch = producer.producer
    return EndTxnRequest(
        transactional_id=producer.name, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )


async def ended(producer: Transformer, *, commit: bool) -> Error:
    """Send EndTxn, again while another transaction is still being ended; return the error."""
    while True:
        answer = await producer.ask(
            await producer.coordinator(1, producer.name), end(producer, commit=commit), 3
        )
        error = Error.from_code(answer.error_code)
        if error is not Error.CONCURRENT_TRANSACTIONS:
            return error
        await trio.sleep(0.02)


async def connect(client: BrokerClient, producer: Transformer) -> None:
    """Connect before the network is cut, by a request that changes nothing."""
    stranger = EndTxnRequest(
        transactional_id=producer.name, producer_id=-5, producer_epoch=0, committed=False
    )
    answer = await client.request(stranger, 3)
    assert answer.error_code == Error.INVALID_PRODUCER_ID_MAPPING


async def send_late(client: BrokerClient, request: EndTxnRequest, outcome: list[Error | None]) -> None:
    try:
        outcome.append(Error.from_code((await client.request(request, 3)).error_code))
    except ConnectionFailedError:
        outcome.append(None)


@pytest.mark.parametrize("seed", range(5))
def test_a_late_commit_ends_the_next_transaction_of_the_epoch(seed: int) -> None:
    """Kafka 3.9 does the same, and no broker can tell the requests apart: docs/divergence.md names it."""
    outcome = tell(seed, closes=False, new_epoch=False)
    assert outcome == Outcome(Error.NONE, Error.INVALID_TXN_STATE, [b"first", b"second"])


@pytest.mark.parametrize("seed", range(5))
def test_a_request_of_a_client_that_has_closed_the_connection_is_not_carried_out(seed: int) -> None:
    outcome = tell(seed, closes=True, new_epoch=False)
    assert outcome == Outcome(None, Error.NONE, [b"first"])


@pytest.mark.parametrize("seed", range(5))
def test_a_client_with_a_new_epoch_is_safe(seed: int) -> None:
    outcome = tell(seed, closes=False, new_epoch=True)
    assert outcome == Outcome(Error.PRODUCER_FENCED, Error.NONE, [b"first"])
