"""Transaction verifications on their way to other brokers: merged, never displaced, refused in doubt."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.coordinator.transactions.verifier import Verifier
from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.broker_client import ConnectionFailedError
from cluster.network.endpoints import SecurityProtocol
from cluster.replication.leader.verified_appends import Question
from cluster.replication.metadata_cache import Node
from simulation.clock import SimulatedClock
from tests.unit.coordinator.in_memory import run
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition

HERE, THERE = BrokerId(1), BrokerId(2)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Peer:
    """The other broker: answers requests when the test lets it."""

    def __init__(self) -> None:
        self.max_version = 5
        self.errors: dict[TopicPartition, Error] = {}
        self.error = Error.NONE
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.versions: list[int] = []
        self.failures: list[Exception] = []
        self.is_live = True
        self.gate: trio.Event | None = None
        self.connections = 0
        self.leaves_out: set[TopicPartition] = set()

    def find(self):
        return Node(BrokerId(2), "there", 9092, None, SecurityProtocol.PLAINTEXT) if self.is_live else None

    def connect(self, node):
        self.connections += 1
        return self

    def close(self) -> None:
        pass

    async def request(self, message, version):
        await trio.lowlevel.checkpoint()
        if not isinstance(message, AddPartitionsToTxnRequest):
            return ApiVersionsResponse(
                error_code=0,
                api_keys=[
                    ApiVersion(
                        api_key=ApiKey.ADD_PARTITIONS_TO_TXN, min_version=0, max_version=self.max_version
                    )
                ],
            )
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.asked.append(message)
        self.versions.append(version)
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[self._result(each) for each in message.transactions],
        )

    def _result(self, transaction):
        return AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=self.errors.get(
                                TopicPartition(topic.name, index), Error.NONE
                            ),
                        )
                        for index in topic.partitions
                        if TopicPartition(topic.name, index) not in self.leaves_out
                    ],
                )
                for topic in transaction.topics
            ],
        )


class Asking:
    """A verifier, and its answers so far."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.peer = Peer()
        self.coordinator: BrokerId | None = THERE
        self.metrics = BrokerMetrics()
        self.verifier = Verifier(
            HERE,
            lambda transactional_id: self.coordinator,
            lambda question: dict.fromkeys(question.partitions, Error.TRANSACTION_ABORTABLE),
            lambda broker_id: PeerChannel(self.peer.find, self.peer.connect),
            nursery,
            SimulatedClock(),
            self.metrics,
        )
        self.answers: list[dict] = []

    def ask(self, *places: TopicPartition, transactional_id: str = "t", epoch: int = 0) -> None:
        question = Question(transactional_id, ProducerId(7), ProducerEpoch(epoch), places or (P0,))
        self.verifier.ask(question, lambda answers: self.answers.append(dict(answers)))

    async def settle(self) -> None:
        await trio.testing.wait_all_tasks_blocked()


def asking(body: Callable[[Asking], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await body(Asking(nursery))
            nursery.cancel_scope.cancel()

    run(main)


def test_the_coordinator_confirms_each_partition_by_itself() -> None:
    async def body(asking: Asking) -> None:
        asking.peer.errors = {P1: Error.TRANSACTION_ABORTABLE}
        asking.ask(P0, P1)
        await asking.settle()
        assert asking.answers == [{P0: Error.NONE, P1: Error.TRANSACTION_ABORTABLE}]
        ((transaction,),) = [request.transactions for request in asking.peer.asked]
        assert transaction.verify_only
        assert asking.peer.versions == [5]
        assert asking.metrics.verification_failures.only.value == 1

    asking(body)


def test_what_is_asked_meanwhile_goes_together_and_nothing_is_displaced() -> None:
    async def body(asking: Asking) -> None:
        asking.peer.gate = trio.Event()
        asking.ask(P0)
        await asking.settle()
        asking.ask(P0)
        asking.ask(P1)
        asking.ask(P0, epoch=1)
        asking.ask(P0, transactional_id="u")
        await asking.settle()
        assert asking.verifier.waiting == 5
        asking.peer.gate.set()
        await asking.settle()
        assert len(asking.answers) == 5
        assert [
            [(each.transactional_id, each.producer_epoch) for each in request.transactions]
            for request in asking.peer.asked
        ] == [[("t", 0)], [("t", 0), ("u", 0)], [("t", 1)]]
        assert asking.verifier.waiting == 0

    asking(body)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (Error.CLUSTER_AUTHORIZATION_FAILED, Error.INVALID_TXN_STATE),
        (Error.UNKNOWN_SERVER_ERROR, Error.INVALID_TXN_STATE),
    ],
)
def test_an_error_for_the_whole_request_confirms_nothing(error: Error, answer: Error) -> None:
    async def body(asking: Asking) -> None:
        asking.peer.error = error
        asking.ask()
        await asking.settle()
        assert asking.answers == [{P0: answer}]

    asking(body)


def test_a_partition_that_is_left_out_is_not_confirmed() -> None:
    async def body(asking: Asking) -> None:
        asking.peer.leaves_out = {P0}
        asking.ask()
        await asking.settle()
        assert asking.answers == [{P0: Error.INVALID_TXN_STATE}]

    asking(body)


def test_a_connection_that_breaks_is_no_confirmation() -> None:
    async def body(asking: Asking) -> None:
        asking.peer.failures = [ConnectionFailedError(5, "broken")]
        asking.ask()
        await asking.settle()
        assert asking.answers == [{P0: Error.NETWORK_EXCEPTION}]

    asking(body)


def test_a_connection_that_had_gone_stale_is_made_again() -> None:
    async def body(asking: Asking) -> None:
        asking.ask()
        await asking.settle()
        asking.peer.failures = [ConnectionFailedError(5, "closed for being idle")]
        asking.ask()
        await asking.settle()
        assert asking.answers == [{P0: Error.NONE}] * 2
        assert asking.peer.connections == 2

    asking(body)


def test_without_a_coordinator_nothing_is_confirmed() -> None:
    async def body(asking: Asking) -> None:
        asking.coordinator = None
        asking.ask()
        assert asking.answers == [{P0: Error.COORDINATOR_NOT_AVAILABLE}]
        asking.coordinator = THERE
        asking.peer.is_live = False
        asking.ask()
        await asking.settle()
        assert asking.answers[1:] == [{P0: Error.COORDINATOR_NOT_AVAILABLE}]

    asking(body)


def test_a_coordinator_on_this_broker_is_asked_without_the_network() -> None:
    async def body(asking: Asking) -> None:
        asking.coordinator = HERE
        asking.ask()
        assert asking.answers == [{P0: Error.TRANSACTION_ABORTABLE}]
        assert not asking.peer.connections

    asking(body)


def test_a_broker_that_cannot_verify_lets_transactions_pass() -> None:
    async def body(asking: Asking) -> None:
        asking.peer.max_version = 3
        asking.ask()
        await asking.settle()
        assert asking.answers == [{P0: Error.NONE}]
        assert not asking.peer.asked

    asking(body)
