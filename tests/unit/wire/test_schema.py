"""How declared messages behave: defaults, equality, printing, and what a version cannot carry."""

import subprocess
import sys

import pytest

from wire.codec import decode, encode
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.formats.consumer_protocol import ConsumerProtocolSubscription
from wire.formats.group_metadata import GroupMetadataKey, OffsetCommitKey
from wire.formats.versioned import (
    decode_forward_compatible,
    decode_versioned,
    encode_versioned,
    peek_version,
)
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.schema import NO_VERSION, VersionRange
from wire.types import BrokerId, Generation


def test_version_texts() -> None:
    assert VersionRange.parse("3") == (3, 3)
    assert VersionRange.parse("0-7") == (0, 7)
    assert VersionRange.parse("none") == NO_VERSION
    assert 9 in VersionRange.parse("3+")
    assert 2 not in VersionRange.parse("3+")
    assert 0 not in NO_VERSION


def test_fields_have_defaults() -> None:
    request = FetchRequest()
    assert request.topics == ()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.replica_state.replica_id == -1
    assert request.cluster_id is None
    assert PartitionData().records is None


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="replicaid"):
        FetchRequest(replicaid=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().unknown = 1  # type: ignore[attr-defined]


def test_messages_are_compared_by_value() -> None:
    one = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(partition=1)])])
    same = FetchRequest(topics=(FetchTopic(partitions=(FetchPartition(partition=1),)),))
    other = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(partition=2)])])
    assert one == same
    assert one != other
    assert one != 3
    assert PartitionProduceData(records=memoryview(b"a")) == PartitionProduceData(records=b"a")
    with pytest.raises(TypeError):
        hash(one)


def test_replace_changes_a_copy() -> None:
    request = FetchRequest(max_wait_ms=3)
    assert request.replace(min_bytes=5) == FetchRequest(max_wait_ms=3, min_bytes=5)
    assert request.min_bytes == 0


def test_secrets_and_records_are_not_printed() -> None:
    assert repr(SaslAuthenticateRequest(auth_bytes=b"password")) == "SaslAuthenticateRequest(auth_bytes=...)"
    assert (
        repr(PartitionProduceData(index=1, records=b"abc"))
        == "PartitionProduceData(index=1, records=<3 bytes>)"
    )


def test_what_a_version_lacks_and_may_not_drop_is_refused() -> None:
    with pytest.raises(ValueError, match="replica_id cannot be sent in version 15, but is 2"):
        encode(FetchRequest(replica_id=BrokerId(2)), 15)
    with pytest.raises(ValueError, match="last_fetched_epoch cannot be sent in version 11"):
        encode(FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=0)])]), 11)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="coordinator_keys"):
        encode(FindCoordinatorRequest(coordinator_keys=["a"]), 3)


def test_what_a_version_lacks_and_may_drop_is_dropped() -> None:
    request = FetchRequest(max_bytes=5, isolation_level=1)
    assert decode(FetchRequest, 0, encode(request, 0)) == FetchRequest()


def test_null_is_refused_where_it_may_not_be() -> None:
    with pytest.raises(ValueError, match="topics cannot be sent in version 0, but is None"):
        encode(MetadataRequest(topics=None), 0)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="ProduceRequest v9 cannot be encoded"):
        encode(ProduceRequest(acks=40_000), 9)
    for version in (4, 7):
        with pytest.raises(ValueError, match=r"32767|cannot be encoded"):
            encode(CreateTopicsRequest(topics=[CreatableTopic(name="x" * 32768)]), version)


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(ValueError, match="FetchRequest has no version 18"):
        encode(FetchRequest(), 18)
    with pytest.raises(UnsupportedVersionError, match="FetchRequest has no version -1"):
        decode(FetchRequest, -1, b"")


def test_formats_are_told_apart_by_their_version() -> None:
    assert peek_version(encode_versioned(OffsetCommitKey(), 1)) == 1
    assert peek_version(encode_versioned(GroupMetadataKey(), 2)) == 2
    with pytest.raises(UnsupportedVersionError):
        decode_versioned(OffsetCommitKey, encode_versioned(GroupMetadataKey(), 2))
    with pytest.raises(RemoteProtocolError):
        peek_version(b"\0")


def test_a_later_subscription_is_read_as_the_last_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a"], generation_id=Generation(3), rack_id="r")
    later = b"\0\x09" + encode_versioned(subscription, 3)[2:] + b"something new"
    assert decode_forward_compatible(ConsumerProtocolSubscription, later) == subscription
    with pytest.raises(UnsupportedVersionError):
        decode_forward_compatible(ConsumerProtocolSubscription, b"\xff\xff")


def test_finding_an_api_imports_its_module_only() -> None:
    code = (
        "import sys, wire.frames, wire.messages; from wire.apis import API_TABLE; API_TABLE[1].request;"
        "print(*sorted(name for name in sys.modules if name.startswith('wire.messages.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["wire.messages.fetch"]
