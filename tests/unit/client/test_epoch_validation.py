"""If a new leader's Fetch does not compare epochs, it is asked first whether its log has what was read (KIP-320)."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from ottla.client import EARLIEST, OffsetLost, connect
from ottla.client.kafka import Kafka
from tests.unit.client.test_connecting import VERSIONS, PlayedBroker
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.schema import Request, Response
from wire.types import BrokerId, LeaderEpoch, Offset, WallMs

LEADER = BrokerId(1)
FIRST, SECOND = LeaderEpoch(5), LeaderEpoch(6)


class OldLeader:
    """Leads a topic, in a second epoch once three records of the first were read; it serves Fetch up to version 11."""

    def __init__(self, ends: list[tuple[Error, int]]) -> None:
        self.epoch = FIRST
        self.fetched: list[tuple[int, LeaderEpoch]] = []
        self.compared: list[tuple[LeaderEpoch, LeaderEpoch]] = []
        self.port = 0
        self._ends = iter(ends)

    def answers(self) -> dict[int, Callable[[Request], Response | None]]:
        return {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FETCH: self._fetch,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_end,
        }

    def _versions(self, _: Request) -> Response:
        fetch = ApiVersion(api_key=ApiKey.FETCH, min_version=0, max_version=11)
        return ApiVersionsResponse(
            api_keys=[fetch if each.api_key == ApiKey.FETCH else each for each in VERSIONS]
        )

    def _metadata(self, request: Request) -> Response:
        partition = MetadataResponsePartition(partition_index=0, leader_id=LEADER, leader_epoch=self.epoch)
        return MetadataResponse(
            cluster_id="played",
            brokers=[MetadataResponseBroker(node_id=LEADER, host="127.0.0.1", port=self.port)],
            topics=[
                MetadataResponseTopic(name=each.name, partitions=[partition])
                for each in getattr(request, "topics", None) or ()
            ],
        )

    def _fetch(self, request: Request) -> Response | None:
        assert isinstance(request, FetchRequest)
        if request.topics:
            (asked,) = request.topics[0].partitions
            self.fetched.append((asked.fetch_offset, asked.current_leader_epoch))
        if self.fetched[-1] == (0, FIRST):
            records = [Record(Offset(at), WallMs(1), None, b"%d" % at) for at in range(3)]
            return self._data(records=build_batch(records, leader_epoch=FIRST), high_watermark=Offset(3))
        if self.fetched[-1][1] == FIRST:
            self.epoch = SECOND
            return self._data(error_code=Error.FENCED_LEADER_EPOCH)
        return None  # nothing new: it waits

    def _data(self, **fields: object) -> Response:
        data = PartitionData(partition_index=0, **fields)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def _epoch_end(self, request: Request) -> Response:
        assert isinstance(request, OffsetForLeaderEpochRequest)
        (asked,) = request.topics[0].partitions
        self.compared.append((asked.leader_epoch, asked.current_leader_epoch))
        error, end = next(self._ends)
        result = EpochEndOffset(error_code=error, partition=0, leader_epoch=FIRST, end_offset=Offset(end))
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=[result])]
        )


def read(leader: OldLeader, body: Callable[[Kafka], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                broker = await nursery.start(PlayedBroker(leader.answers()).serve)
                leader.port = broker.port
                address = f"127.0.0.1:{broker.port}"
                async with connect(address, retry_backoff=0.001, retry_backoff_max=0.01) as kafka:
                    await body(kafka)
                nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.parametrize(("end", "truncated_to"), [(2, 2), (-1, None)])
def test_a_log_that_was_truncated_below_the_position_is_noticed(end: int, truncated_to: int | None) -> None:
    leader = OldLeader([(Error.FENCED_LEADER_EPOCH, -1), (Error.NONE, end)])

    async def body(kafka: Kafka) -> None:
        async with kafka.reader("t", start=0) as reader:
            assert (await anext(reader)).values() == [b"0", b"1", b"2"]
            with pytest.raises(OffsetLost) as caught:
                await anext(reader)
            assert (caught.value.position, caught.value.truncated_to) == (3, truncated_to)

    read(leader, body)
    assert leader.compared == [(FIRST, SECOND)] * 2
    assert {epoch for _, epoch in leader.fetched} == {FIRST}, (
        "nothing is fetched from a log that is another one"
    )


def test_a_log_that_still_has_what_was_read_is_read_on() -> None:
    leader = OldLeader([(Error.NONE, 3)])

    async def body(kafka: Kafka) -> None:
        async with kafka.reader("t", start=0) as reader:
            await anext(reader)
            with trio.move_on_after(5) as scope:
                while leader.fetched[-1] != (3, SECOND):
                    await trio.testing.wait_all_tasks_blocked(0.001)
            assert not scope.cancelled_caught

    read(leader, body)
    assert leader.compared == [(FIRST, SECOND)]


def test_reading_goes_on_where_the_log_was_truncated_to_if_that_is_wanted() -> None:
    leader = OldLeader([(Error.NONE, 2)])

    async def body(kafka: Kafka) -> None:
        async with kafka.reader("t", start=0, on_offset_lost=EARLIEST) as reader:
            await anext(reader)
            with trio.move_on_after(5) as scope:
                while leader.fetched[-1] != (2, SECOND):
                    await trio.testing.wait_all_tasks_blocked(0.001)
            assert not scope.cancelled_caught

    read(leader, body)
