"""Messages whose bytes are written out by hand, read three ways: whole, cut at every byte, and with trailing bytes."""

import pytest

from wire.codec import decode, encode
from wire.errors import RemoteProtocolError
from wire.formats.group_metadata import OffsetCommitKey, OffsetCommitValue
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions
from wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from wire.messages.fetch import FetchableTopicResponse as FetchTopicResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.schema import Message
from wire.types import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, WallMs

TOPIC_ID = TopicId(bytes(range(16)))
ID = TOPIC_ID.hex()

TABLE: list[tuple[Message, int, str]] = [
    (ApiVersionsRequest(), 0, ""),
    (
        ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.8"),
        3,
        "0b 6c696272646b61666b61"  # client_software_name, length plus one
        "04 322e38"  # client_software_version
        "00",  # no tagged fields
    ),
    (
        ApiVersionsResponse(
            error_code=35,
            api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
            zk_migration_ready=True,
        ),
        3,
        "0023"  # error_code
        "02 0012 0000 0004 00"  # one API, no tagged fields
        "00000000"  # throttle_time_ms
        "01 03 01 01",  # one tagged field: 3, of one byte: zk_migration_ready
    ),
    (MetadataRequest(), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(name="a")], allow_auto_topic_creation=True),
        4,
        "00000001 000161 01",
    ),
    (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)], allow_auto_topic_creation=False
        ),
        12,
        f"02 {ID} 00 00"  # one topic: id, null name, no tags
        "00 00 00",  # two flags, no tags
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=1500,
            topic_data=[
                TopicProduceData(
                    name="größe",
                    partition_data=[
                        PartitionProduceData(index=1, records=b"\x01\x02\x03"),
                        PartitionProduceData(index=2, records=None),
                    ],
                )
            ],
        ),
        9,
        "00 ffff 000005dc"  # null transactional_id, acks, timeout_ms
        "02 08 6772c3b6c39f65"  # one topic and its name
        "03 00000001 04 010203 00"  # two partitions; the first's index, records, tags
        "00000002 00 00"
        "00 00",  # no tags in the topic, none in the request
    ),
    (
        ProduceRequest(
            acks=1,
            topic_data=[TopicProduceData(name="a", partition_data=[PartitionProduceData(records=b"")])],
        ),
        3,
        "ffff 0001 00000000"  # null transactional_id, acks, timeout_ms
        "00000001 000161"  # one topic
        "00000001 00000000 00000000",  # one partition with no bytes of records
    ),
    (
        FetchRequest(
            replica_state=ReplicaState(replica_id=BrokerId(2), replica_epoch=BrokerEpoch(5)),
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic_id=TOPIC_ID, partitions=[FetchPartition(partition=3, fetch_offset=Offset(9))]
                )
            ],
        ),
        15,
        "000001f4 00000001 7fffffff 00 00000000 ffffffff"  # waits, bytes, isolation, session id and epoch
        f"02 {ID}"
        "02 00000003 ffffffff 0000000000000009 ffffffff ffffffffffffffff 00000000 00 00"
        "01 01"  # nothing forgotten, empty rack_id
        "01 01 0d 00000002 0000000000000005 00",  # one tagged field: 1, of 13 bytes: replica_state
    ),
    (
        FetchResponse(
            responses=[
                FetchTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=[
                        PartitionData(
                            high_watermark=Offset(7),
                            diverging_epoch=EpochEndOffset(epoch=LeaderEpoch(1), end_offset=Offset(4)),
                            aborted_transactions=None,
                            records=bytes(200),
                        )
                    ],
                )
            ]
        ),
        13,
        "00000000 0000 00000000"  # throttle_time_ms, error_code, session_id
        f"02 {ID}"
        "02 00000000 0000 0000000000000007 ffffffffffffffff ffffffffffffffff"
        f"00 ffffffff c901 {'00' * 200}"  # null aborted_transactions, no read replica, 200 bytes: 201 in two bytes
        "01 00 0d 00000001 0000000000000004 00"  # one tagged field: 0, of 13 bytes: diverging_epoch
        "00 00",  # no tags in the topic, none in the response
    ),
    (
        ConsumerGroupHeartbeatResponse(assignment=None),
        0,
        "00000000 0000 00 00 00000000 00000000 ff 00",  # a null struct is a byte below zero
    ),
    (
        ConsumerGroupHeartbeatResponse(
            assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=[1, 258])])
        ),
        0,
        "00000000 0000 00 00 00000000 00000000"
        f"01 02 {ID} 03 00000001 00000102 00 00"  # a struct that is present begins with 1
        "00",
    ),
    (OffsetCommitKey(group="g", topic="t", partition=5), 1, "000167 000174 00000005"),
    (
        OffsetCommitValue(
            offset=Offset(8), leader_epoch=LeaderEpoch(2), metadata="m", commit_timestamp=WallMs(16)
        ),
        3,
        "0000000000000008 00000002 00016d 0000000000000010",
    ),
]
IDS = [f"{type(message).__name__}-{version}-{number}" for number, (message, version, _) in enumerate(TABLE)]


@pytest.mark.parametrize(("message", "version", "text"), TABLE, ids=IDS)
def test_encoding_gives_these_bytes(message: Message, version: int, text: str) -> None:
    assert encode(message, version).hex() == text.replace(" ", "")


@pytest.mark.parametrize(("message", "version", "text"), TABLE, ids=IDS)
def test_decoding_reads_these_bytes(message: Message, version: int, text: str) -> None:
    encoded = bytes.fromhex(text)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert decode(type(message), version, buffer) == message


@pytest.mark.parametrize(("message", "version", "text"), TABLE, ids=IDS)
def test_a_cut_at_any_byte_is_refused(message: Message, version: int, text: str) -> None:
    encoded = bytes.fromhex(text)
    for cut in range(len(encoded)):
        with pytest.raises(RemoteProtocolError):
            decode(type(message), version, encoded[:cut])


@pytest.mark.parametrize(("message", "version", "text"), TABLE, ids=IDS)
def test_bytes_behind_are_refused(message: Message, version: int, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="1 bytes follow"):
        decode(type(message), version, bytes.fromhex(text) + b"\0")
