"""Every API in every version that a broker advertises is answered with bytes of that version, success or error."""

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.testing import Cluster
from tests.conftest import Topics
from wire.apis import API_TABLE, ApiKey
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.controlled_shutdown import ControlledShutdownRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import build_batch
from wire.records.legacy import build_message_set
from wire.records.record import Record
from wire.types import BrokerId

TOPIC = "every-version"
CLIENT = "every-version-client"


class RawClient:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)

    def ask(self, request: Any, version: int, response: type) -> Any:
        self._socket.sendall(encode_request(request, version, 7, CLIENT))
        (size,) = struct.unpack(">i", self._read(4))
        correlation_id, answer = decode_response(response, version, self._read(size))
        assert correlation_id == 7
        return answer

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            assert chunk, "the broker closed the connection"
            data += chunk
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A broker for this test alone: it leads everything, and a crash of it harms no other test."""
    overrides = {"offsets.topic.num.partitions": "1", "log.message.format.version": "3.0"}
    with Cluster.up(tmp_path_factory.mktemp("alone") / "data", brokers=1, overrides=overrides) as cluster:
        Topics(cluster.bootstrap_servers).create([TOPIC], 1, 1)
        yield cluster


@pytest.fixture(scope="module")
def topic_id(alone) -> bytes:
    client = RawClient(alone.bootstrap_servers)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    answer = client.ask(asked, 12, API_TABLE[ApiKey.METADATA].response)
    client.close()
    return answer.topics[0].topic_id


def produce(version: int, _topic_id: bytes) -> ProduceRequest:
    record = Record(0, 1_700_000_000_000, b"key", b"value")
    records = (
        build_batch([record]) if version >= 3 else build_message_set([record], magic=min(version // 2, 1))
    )
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )


def fetch(version: int, topic_id: bytes) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topic = FetchTopic(topic_id=topic_id) if version >= 13 else FetchTopic(topic=TOPIC)
    request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic.replace(partitions=[partition])])
    return request.replace(max_bytes=1_000_000) if version >= 3 else request


def list_offsets(version: int, _topic_id: bytes) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    if version == 0:
        partition = partition.replace(max_num_offsets=10)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])


def epochs(version: int, _topic_id: bytes) -> OffsetForLeaderEpochRequest:
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])])
    return request.replace(replica_id=-1) if version >= 3 else request


def metadata(version: int, _topic_id: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name="absent")])


def coordinator(version: int, _topic_id: bytes) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")


def configs(version: int, _topic_id: bytes) -> DescribeConfigsRequest:
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=TOPIC),
        DescribeConfigsResource(resource_type=4, resource_name="0"),
    ]
    request = DescribeConfigsRequest(resources=resources)
    return request.replace(include_synonyms=True) if version >= 1 else request


def create(version: int, _topic_id: bytes) -> CreateTopicsRequest:
    topic = CreatableTopic(name=f"made-{version}", num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def extend(version: int, _topic_id: bytes) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=TOPIC, count=1)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)


def departure(version: int, _topic_id: bytes) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=BrokerId(99))


SAMPLES: dict[int, Callable[[int, bytes], Any]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epochs,
    ApiKey.METADATA: metadata,
    ApiKey.FIND_COORDINATOR: coordinator,
    ApiKey.DESCRIBE_CONFIGS: configs,
    ApiKey.CONTROLLED_SHUTDOWN: departure,
    ApiKey.CREATE_TOPICS: create,
    ApiKey.CREATE_PARTITIONS: extend,
}
"""Requests with content; those of the other APIs are empty, or name what does not exist."""


def served(alone) -> list[tuple[int, int]]:
    client = RawClient(alone.bootstrap_servers)
    answer = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    client.close()
    return [(one.api_key, v) for one in answer.api_keys for v in range(one.min_version, one.max_version + 1)]


def test_each_version_is_answered(alone, topic_id) -> None:
    pairs = served(alone)
    assert len({key for key, _ in pairs}) >= 18
    unanswered = []
    for key, version in pairs:
        api = API_TABLE[key]
        request = SAMPLES[key](version, topic_id) if key in SAMPLES else api.request()
        client = RawClient(alone.bootstrap_servers)
        try:
            client.ask(request, version, api.response)
        except (AssertionError, OSError) as error:
            unanswered.append(f"{api.name} v{version}: {error}")
        finally:
            client.close()
        assert alone.view().descriptions, f"{api.name} v{version} brought the broker down"
    assert unanswered == []
