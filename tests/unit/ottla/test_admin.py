"""The admin client against brokers in memory: versions, the moving controller, errors with their reasons."""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from ottla.addresses import Address, parse_addresses
from ottla.client.admin import Admin, FoundOffset, NewTopic
from ottla.client.errors import BootstrapError, BrokerUnreachable, ClientError, UnsupportedByBroker
from ottla.client.kafka import Kafka
from ottla.client.link import Link
from ottla.client.settings import ConnectionSettings
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
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
from wire.types import LeaderEpoch, Offset, TopicPartition, WallMs

Answers = dict[int, Callable[[Any], Any]]


class Cluster:
    """Brokers 0 and 1 at ports 1000 and 1001; broker 1 is the controller unless told otherwise."""

    def __init__(self, nursery: trio.Nursery, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.nursery = nursery
        self.controller = 1
        self.down: set[int] = set()
        self.silent: set[int] = set()
        self.asked: list[tuple[int, str, int]] = []
        self.answers: Answers = {ApiKey.METADATA: lambda request: self.metadata()}
        self.versions = {key: (api.min_version, api.max_version) for key, api in API_TABLE.items()} | (
            versions or {}
        )

    def metadata(self, topics: Sequence[MetadataResponseTopic] = ()) -> MetadataResponse:
        return MetadataResponse(
            cluster_id="c",
            controller_id=self.controller,
            brokers=[MetadataResponseBroker(node_id=i, host="broker", port=1000 + i) for i in (0, 1)],
            topics=list(topics),
        )

    async def dial(self, address: Address, timeout_s: float) -> Link:
        await trio.lowlevel.checkpoint()
        broker = address.port - 1000
        if broker in self.down or address.host != "broker":
            raise BrokerUnreachable(f"{address}: Connection refused")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.nursery.start_soon(self.serve, broker, trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))
        return Link(ours, address)

    async def serve(self, broker: int, stream: trio.SocketStream) -> None:
        data = bytearray()
        async for chunk in stream:
            data += chunk
            while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
                frame, data = bytes(data[4:end]), data[end:]
                header, request = decode_request(frame)
                self.asked.append((broker, ApiKey(header.api_key).name, header.api_version))
                if broker in self.down:
                    await stream.aclose()
                    return
                await self.answer(broker, stream, header, request)

    async def answer(self, broker: int, stream: trio.abc.Stream, header: Any, request: Any) -> None:
        version = header.api_version
        response: Any
        if broker in self.silent and header.api_key not in (ApiKey.API_VERSIONS, ApiKey.METADATA):
            return
        if header.api_key == ApiKey.API_VERSIONS:
            served = self.versions[ApiKey.API_VERSIONS]
            response = ApiVersionsResponse(
                error_code=Error.NONE if version <= served[1] else Error.UNSUPPORTED_VERSION,
                api_keys=[
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.versions.items()
                ],
            )
            version = version if version <= served[1] else 0
        else:
            response = self.answers[header.api_key](request)
        frame = encode_response(response, version, header.correlation_id)
        assert isinstance(frame, bytearray)
        await stream.send_all(frame)


def run(story: Callable[[Cluster, Admin], Any], **options: Any) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            cluster = Cluster(nursery, **options)
            settings = ConnectionSettings(client_id="test", api_timeout=10.0, request_timeout=10.0)
            async with Kafka("broker:1000,broker:1001", settings, dialer=cluster.dial) as kafka:
                await story(cluster, kafka.admin)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def created(request: Any, code: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=t.name, error_code=code, error_message=None) for t in request.topics
        ]
    )


def test_creation_goes_to_the_controller_and_follows_it() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        await admin.refresh()
        cluster.answers[ApiKey.CREATE_TOPICS] = created
        assert await admin.create_topics([NewTopic("t", 1, 1)]) == {"t": Error.NONE}
        assert cluster.asked[-1][:2] == (1, "CREATE_TOPICS")

        def moved(request: Any) -> CreateTopicsResponse:
            cluster.controller = 0
            cluster.answers[ApiKey.CREATE_TOPICS] = created
            return created(request, Error.NOT_CONTROLLER)

        cluster.answers[ApiKey.CREATE_TOPICS] = moved
        assert await admin.create_topics([NewTopic("t", 1, 1)]) == {"t": Error.NONE}
        assert cluster.asked[-1][:2] == (0, "CREATE_TOPICS")

    run(story)


def test_a_dead_controller_is_waited_for_and_then_told_of() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        await admin.refresh()
        cluster.down.add(1)
        cluster.answers[ApiKey.CREATE_TOPICS] = created
        before = trio.current_time()
        with pytest.raises(BrokerUnreachable, match="Connection refused"):
            await admin.create_topics([NewTopic("t", 1, 1)])
        assert 10 <= trio.current_time() - before < 11
        cluster.controller = 0
        assert await admin.create_topics([NewTopic("t", 1, 1)]) == {"t": Error.NONE}

    run(story)


def test_refusals_are_typed() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        await admin.refresh()
        cluster.answers[ApiKey.CREATE_TOPICS] = partial(created, code=Error.TOPIC_ALREADY_EXISTS)
        assert await admin.create_topics([NewTopic("t")]) == {"t": Error.TOPIC_ALREADY_EXISTS}
        cluster.answers[ApiKey.CREATE_TOPICS] = partial(created, code=Error.INVALID_PARTITIONS)
        with pytest.raises(ClientError, match="topic 't'") as refused:
            await admin.create_topics([NewTopic("t")])
        assert refused.value.error is Error.INVALID_PARTITIONS
        cluster.answers[ApiKey.CREATE_PARTITIONS] = lambda request: CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name="t", error_code=Error.INVALID_PARTITIONS, error_message="no")
            ]
        )
        with pytest.raises(ClientError, match="topic 't': no"):
            await admin.create_partitions({"t": 3}, {"t": [[0], [1]]})

    run(story)


def test_topics_are_described_in_order() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=bytes([number] * 16),
                is_internal=name.startswith("__"),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=i, leader_id=i, replica_nodes=[0, 1], isr_nodes=[i]
                    )
                    for i in (1, 0)
                ],
            )
            for number, name in enumerate(("b", "a", "__internal"))
        ]
        cluster.answers[ApiKey.METADATA] = lambda request: cluster.metadata(topics)
        described = await admin.describe_topics(None)
        assert [topic.name for topic in described] == ["__internal", "a", "b"]
        assert [p.partition for p in described[1].partitions] == [0, 1]
        assert await admin.list_topics(internal=False) == ["a", "b"]
        missing = MetadataResponseTopic(name="x", error_code=Error.UNKNOWN_TOPIC_OR_PARTITION)
        cluster.answers[ApiKey.METADATA] = lambda request: cluster.metadata([missing])
        with pytest.raises(ClientError, match="'x'"):
            await admin.describe_topics(["x"])
        assert await admin.describe_topics(None) == []

    run(story)


def test_old_and_foreign_brokers() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        await admin.refresh()
        assert [version for _, api, version in cluster.asked if api == "API_VERSIONS"] == [3, 0] * 2
        assert cluster.asked[-1][1:] == ("METADATA", 5)
        with pytest.raises(UnsupportedByBroker, match="CreateTopics"):
            await admin.create_topics([NewTopic("t")])
        with pytest.raises(UnsupportedByBroker, match="CreatePartitions"):
            await admin.create_partitions({"t": 1})

    run(
        story,
        versions={
            ApiKey.API_VERSIONS: (0, 2),
            ApiKey.METADATA: (0, 5),
            ApiKey.CREATE_TOPICS: (90, 95),
            ApiKey.CREATE_PARTITIONS: (90, 95),
        },
    )


def test_any_broker_will_do_and_none_has_reasons() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        cluster.down.add(0)
        assert (await admin.refresh()).controller_id == 1
        cluster.down.add(1)
        with pytest.raises(BootstrapError) as nobody:
            await admin.refresh()
        for port in (1000, 1001):
            assert f"broker:{port}" in str(nobody.value)

    run(story)


def test_what_is_waited_for_is_known_and_the_partition_is_named_at_the_end() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        orphan = MetadataResponsePartition(partition_index=3, leader_id=-1)
        cluster.answers[ApiKey.METADATA] = lambda request: cluster.metadata(
            [MetadataResponseTopic(name="t", partitions=[orphan])]
        )
        seen: list[str] = []

        async def look() -> None:
            await trio.sleep(2)
            seen.extend(admin.router.waits.longer_than(1.5))

        cluster.nursery.start_soon(look)
        began_at = trio.current_time()
        found = await admin.list_offsets({TopicPartition("t", 3): -1})
        assert trio.current_time() - began_at == pytest.approx(10, abs=0.1)
        assert seen == ["leaders: LEADER_NOT_AVAILABLE: t-3 has no leader"]
        assert "t-3 has no leader" in str(found[TopicPartition("t", 3)])
        assert admin.router.waits.longer_than(0) == []

    run(story)


def test_a_broker_that_does_not_answer_is_named_while_it_is_waited_for() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        cluster.silent.add(1)
        seen: list[str] = []

        async def look() -> None:
            await trio.sleep(2)
            seen.extend(admin.router.waits.longer_than(1.5))

        cluster.nursery.start_soon(look)
        with pytest.raises(BrokerUnreachable, match="broker:1001"):
            await admin.create_topics([NewTopic("t", 1, 1)])
        assert seen == ["the controller, broker 1 at broker:1001 to answer CreateTopics"]

    run(story)


def test_one_leader_that_does_not_answer_holds_no_other_up() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        partitions = [MetadataResponsePartition(partition_index=i, leader_id=i) for i in (0, 1)]
        cluster.answers[ApiKey.METADATA] = lambda request: cluster.metadata(
            [MetadataResponseTopic(name="t", partitions=partitions)]
        )
        cluster.answers[ApiKey.LIST_OFFSETS] = lambda request: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="t", partitions=[ListOffsetsPartitionResponse(partition_index=1, offset=Offset(7))]
                )
            ]
        )
        cluster.silent.add(0)
        found = await admin.list_offsets({TopicPartition("t", i): -1 for i in (0, 1)})
        assert found[TopicPartition("t", 1)] == FoundOffset(Offset(7), WallMs(-1), LeaderEpoch(-1))
        assert "t-0" in str(found[TopicPartition("t", 0)])

    run(story)


def test_addresses() -> None:
    assert parse_addresses("a:1, b:65535,,[::1]:9092") == [("a", 1), ("b", 65535), ("::1", 9092)]
    for text in ("", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:-1", "a:1,b"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            parse_addresses(text)
