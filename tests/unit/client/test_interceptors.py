"""What a producer's observers see, against a broker played by the test."""

from collections.abc import Iterator, Sequence

import pytest
import trio

from ottla.client import ClientError
from ottla.client.kafka import Kafka
from ottla.client.producer_batch import Place
from tests.unit.client.test_starting import LEADER, Leaders, started
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.schema import Request, Response
from wire.types import Offset


def test_observers_see_what_succeeded_and_what_failed() -> None:
    seen: list[tuple[list[int], Error | None]] = []
    answers: Iterator[PartitionProduceResponse] = iter(
        [
            PartitionProduceResponse(index=0, base_offset=Offset(7)),
            PartitionProduceResponse(index=0, error_code=Error.TOPIC_AUTHORIZATION_FAILED),
        ]
    )

    def produce(_: Request) -> Response:
        return ProduceResponse(
            responses=[TopicProduceResponse(name="seen", partition_responses=[next(answers)])]
        )

    def observe(places: Sequence[Place], error: ClientError | None) -> None:
        seen.append(([place.offset for place in places], None if error is None else error.error))

    async def body(kafka: Kafka) -> None:
        async with kafka.producer(idempotent=False, on_acknowledged=[observe]) as out:
            first = await out.post("seen", b"a")
            await out.post("seen", b"b")
            assert (await first.wait()).offset == 7
            with pytest.raises(ClientError):
                await out.send("seen", b"c")

    trio.run(started, Leaders([LEADER]), {ApiKey.PRODUCE: produce}, body)
    assert seen == [([7, 8], None), ([], Error.TOPIC_AUTHORIZATION_FAILED)]
