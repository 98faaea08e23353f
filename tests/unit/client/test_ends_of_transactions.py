"""A cancellation during a commit: the outcome is committed or reported as unknown, never as aborted."""

from collections.abc import Callable

import pytest
import trio

from ottla.client import TransactionUnknown, connect
from ottla.client.kafka import Kafka
from ottla.client.transactional_producer import TransactionalProducer
from tests.unit.client.test_connecting import PlayedBroker
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from wire.messages.init_producer_id import InitProducerIdResponse
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.schema import Request, Response
from wire.types import BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId

LEADER = BrokerId(1)


class Coordinates:
    """Leads a topic of one partition and coordinates transactions; leaves the first EndTxn requests unanswered."""

    def __init__(self, unanswered: int) -> None:
        self.ended: list[bool] = []
        self.asked = trio.Event()
        self.port = 0
        self._unanswered = unanswered

    def answers(self) -> dict[int, Callable[[Request], Response | None]]:
        return {
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._coordinator,
            ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(
                producer_id=ProducerId(7), producer_epoch=ProducerEpoch(0)
            ),
            ApiKey.ADD_PARTITIONS_TO_TXN: self._added,
            ApiKey.PRODUCE: self._produced,
            ApiKey.END_TXN: self._end,
        }

    def _metadata(self, request: Request) -> Response:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=LEADER, leader_epoch=LeaderEpoch(0)
        )
        return MetadataResponse(
            cluster_id="played",
            brokers=[MetadataResponseBroker(node_id=LEADER, host="127.0.0.1", port=self.port)],
            topics=[
                MetadataResponseTopic(name=each.name, partitions=[partition])
                for each in getattr(request, "topics", None) or ()
            ],
        )

    def _coordinator(self, _: Request) -> Response:
        found = Coordinator(key="copier", node_id=LEADER, host="127.0.0.1", port=self.port)
        return FindCoordinatorResponse(coordinators=[found])

    def _added(self, request: Request) -> Response:
        assert isinstance(request, AddPartitionsToTxnRequest)
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=Error.NONE)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def _produced(self, _: Request) -> Response:
        done = PartitionProduceResponse(index=0, error_code=Error.NONE, base_offset=Offset(0))
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[done])])

    def _end(self, request: Request) -> Response | None:
        assert isinstance(request, EndTxnRequest)
        self.ended.append(request.committed)
        self.asked.set()
        return None if len(self.ended) <= self._unanswered else EndTxnResponse()


def commit_cancelled(coordinator: Coordinates, expected: type[Exception] | None) -> None:
    """Commit a transaction with one record, cancelled before the coordinator has answered."""

    async def commit(out: TransactionalProducer, scope: trio.CancelScope) -> None:
        with scope:
            async with out.transaction() as transaction:
                await transaction.send("t", b"1")

    async def body(kafka: Kafka) -> None:
        async with kafka.producer(transactional_id="copier") as out, trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def cancel() -> None:
                await coordinator.asked.wait()
                scope.cancel()

            nursery.start_soon(cancel)
            if expected is None:
                await commit(out, scope)
            else:
                with pytest.raises(expected):
                    await commit(out, scope)

    async def main() -> None:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                broker = await nursery.start(PlayedBroker(coordinator.answers()).serve)
                coordinator.port = broker.port
                address = f"127.0.0.1:{broker.port}"
                async with connect(address, request_timeout=0.3, close_timeout=0.6) as kafka:
                    await body(kafka)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_cancelled_commit_is_asked_for_again_until_it_is_known() -> None:
    coordinator = Coordinates(unanswered=1)
    commit_cancelled(coordinator, None)
    assert len(coordinator.ended) >= 2
    assert set(coordinator.ended) == {True}


def test_a_cancelled_commit_that_nobody_answers_is_unknown_and_never_aborted() -> None:
    coordinator = Coordinates(unanswered=1_000)
    commit_cancelled(coordinator, TransactionUnknown)
    assert set(coordinator.ended) == {True}
