"""The admin client against brokers made of memory: versions, the moving controller, errors with their reasons."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from ottla.addresses import parse_addresses
from ottla.admin import Admin, BootstrapError, NewTopic
from ottla.admin.router import Router
from ottla.connection import ConnectError, Connection, NoCommonVersionError
from wire.apis import API_TABLE, ApiKey
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Answers = dict[int, Callable[[Any], Any]]


class Cluster:
    """Brokers 0 and 1 at ports 1000 and 1001; broker 1 is the controller unless told otherwise."""

    def __init__(self, nursery: trio.Nursery, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.nursery = nursery
        self.controller = 1
        self.down: set[int] = set()
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

    async def connect(self, host: str, port: int, client_id: str, timeout_s: float) -> Connection:
        if port - 1000 in self.down or host != "broker":
            raise ConnectError(f"{host}:{port}: Connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.serve, port - 1000, theirs)
        connection = Connection(ours, host, port, client_id)
        await connection.negotiate(timeout_s)
        return connection

    async def serve(self, broker: int, stream: trio.abc.Stream) -> None:
        data = bytearray()
        while chunk := await stream.receive_some(65536):
            data += chunk
            while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
                frame, data = bytes(data[4:end]), data[end:]
                header, request = decode_request(frame)
                self.asked.append((broker, ApiKey(header.api_key).name, header.api_version))
                if broker in self.down:
                    await stream.aclose()
                    return
                await self.answer(stream, header, request)

    async def answer(self, stream: trio.abc.Stream, header: Any, request: Any) -> None:
        version = header.api_version
        response: Any
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
            admin = Admin(Router([("broker", 1000), ("broker", 1001)], "test", 10.0, cluster.connect))
            await story(cluster, admin)
            await admin.close()
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
        with pytest.raises(ConnectError, match="Connection refused"):
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
        with pytest.raises(ApiError, match="topic 't'") as refused:
            await admin.create_topics([NewTopic("t")])
        assert refused.value.error is Error.INVALID_PARTITIONS
        cluster.answers[ApiKey.CREATE_PARTITIONS] = lambda request: CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name="t", error_code=Error.INVALID_PARTITIONS, error_message="no")
            ]
        )
        with pytest.raises(ApiError, match="topic 't': no"):
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
        with pytest.raises(ApiError, match="'x'"):
            await admin.describe_topics(["x"])
        assert await admin.describe_topics(None) == []

    run(story)


def test_old_and_foreign_brokers() -> None:
    async def story(cluster: Cluster, admin: Admin) -> None:
        await admin.refresh()
        assert [version for _, api, version in cluster.asked if api == "API_VERSIONS"] == [4, 2]
        assert cluster.asked[-1] == (0, "METADATA", 5)
        with pytest.raises(NoCommonVersionError, match="CreateTopics"):
            await admin.create_topics([NewTopic("t")])
        with pytest.raises(NoCommonVersionError, match="CreatePartitions"):
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


def broken(answer: bytes, match: str, error: type[Exception]) -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(answer)
        await theirs.send_stream.aclose()
        connection = Connection(ours, "b", 1, "test")
        with pytest.raises(error, match=match):
            await connection.negotiate(1.0)
        assert not connection.is_open
        with pytest.raises(ConnectError, match="closed"):
            await connection.negotiate(1.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_answers_is_no_broker() -> None:
    broken(b"", "TLS or SASL", ConnectError)
    broken(b"\0\0\0\x08\0\0", "closed the connection", ConnectError)
    broken(b"HTTP/1.1 400 Bad Request\r\n", "no Kafka broker", RemoteProtocolError)
    broken(b"\0\0\0\x06\0\0\0\x05\0\0", "ApiVersionsResponse|early|ends", RemoteProtocolError)


def test_silence() -> None:
    async def main() -> None:
        ours, _theirs = trio.testing.memory_stream_pair()
        connection = Connection(ours, "b", 1, "test")
        with pytest.raises(ConnectError, match="within 5 s"):
            await connection.negotiate(5.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_addresses() -> None:
    assert parse_addresses("a:1, b:65535,,[::1]:9092") == [("a", 1), ("b", 65535), ("::1", 9092)]
    for text in ("", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:-1", "a:1,b"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            parse_addresses(text)
