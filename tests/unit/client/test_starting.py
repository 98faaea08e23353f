"""How readers start when a topic's metadata or offsets are not available yet, against a broker played by the test."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest
import trio
import trio.testing

from ottla.client import EARLIEST, NotAuthorized, connect
from ottla.client.fetch_settings import FetchSettings
from ottla.client.fetcher import Fetcher
from ottla.client.kafka import Kafka
from tests.unit.client.test_connecting import Answer, PlayedBroker
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.schema import Request, Response
from wire.types import NO_BROKER, BrokerId, LeaderEpoch

LEADER = BrokerId(1)


class Leaders:
    """Answers Metadata for a topic of one partition, each time with the next given leader; the last one stays."""

    def __init__(self, leaders: Sequence[BrokerId]) -> None:
        self.broker: PlayedBroker | None = None
        self._leaders: Iterator[BrokerId] = iter(leaders)
        self._leader = NO_BROKER

    def __call__(self, request: Request) -> Response:
        assert self.broker is not None
        topics = getattr(request, "topics", None)
        if topics:
            self._leader = next(self._leaders, self._leader)
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=self._leader, leader_epoch=LeaderEpoch(0)
        )
        return MetadataResponse(
            cluster_id="played",
            brokers=[MetadataResponseBroker(node_id=LEADER, host="127.0.0.1", port=self.broker.port)],
            topics=[MetadataResponseTopic(name=each.name, partitions=[partition]) for each in topics or ()],
        )


async def started(
    leaders: Leaders, answers: dict[int, Answer], body: Callable[[Kafka], Awaitable[None]]
) -> None:
    """Run ``body`` with a client of a broker that names ``leaders``; for at most five seconds."""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            leaders.broker = await nursery.start(PlayedBroker({**answers, ApiKey.METADATA: leaders}).serve)
            async with connect(f"127.0.0.1:{leaders.broker.port}", retry_backoff_max=0.01) as kafka:
                await body(kafka)
            nursery.cancel_scope.cancel()


def test_a_partition_without_a_leader_is_read_as_soon_as_it_has_one() -> None:
    fetched = trio.Event()

    async def body(kafka: Kafka) -> None:
        async with kafka.reader("fresh", start=0):
            await fetched.wait()

    def fetch(_: Request) -> None:
        fetched.set()

    trio.run(started, Leaders([NO_BROKER, NO_BROKER, LEADER]), {ApiKey.FETCH: fetch}, body)


def test_a_start_that_was_refused_is_looked_up_again() -> None:
    def refuse(_: Request) -> Response:
        partition = ListOffsetsPartitionResponse(
            partition_index=0, error_code=Error.TOPIC_AUTHORIZATION_FAILED
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="closed", partitions=[partition])])

    async def body(kafka: Kafka) -> None:
        async with kafka.reader("closed", start=EARLIEST) as reader:
            for _ in range(3):
                with pytest.raises(NotAuthorized):
                    await anext(reader)

    trio.run(started, Leaders([LEADER]), {ApiKey.LIST_OFFSETS: refuse}, body)


def test_two_tasks_that_wait_for_one_fetcher_are_both_woken() -> None:
    async def body(kafka: Kafka) -> None:
        fetcher = Fetcher(kafka.context, FetchSettings())
        woken: list[int] = []

        async def wait(number: int) -> None:
            await fetcher.wait_ready()
            woken.append(number)
            fetcher.nudge()  # the next one's

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, 1)
            nursery.start_soon(wait, 2)
            await trio.testing.wait_all_tasks_blocked()
            fetcher.nudge()
        assert sorted(woken) == [1, 2]

    trio.run(started, Leaders([LEADER]), {}, body)
