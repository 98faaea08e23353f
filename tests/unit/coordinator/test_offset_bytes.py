"""Committed offsets as bytes: the same bytes that the schema of Kafka's records gives, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.offset_bytes import (
    CommittedOffset,
    committed_in,
    group_prefix,
    is_value,
    partition_at,
    place_of,
    split_offset_key,
    times_in,
    topic_at,
    value_of,
)
from wire.formats.group_metadata import OffsetCommitKey, OffsetCommitValue
from wire.formats.versioned import encode_versioned
from wire.types import LeaderEpoch, Offset, TopicPartition, WallMs

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(max_size=20)


@given(
    st.builds(
        CommittedOffset,
        LONGS.map(Offset),
        st.integers(-1, (1 << 31) - 1).map(LeaderEpoch),
        TEXTS,
        LONGS.map(WallMs),
        st.one_of(st.just(WallMs(-1)), LONGS.map(WallMs)),
    )
)
def test_values_are_those_of_the_schema(committed: CommittedOffset) -> None:
    expires = committed.expire_timestamp != -1
    value = value_of(committed)
    schema = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=-1 if expires else committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
    )
    assert value == encode_versioned(schema, 1 if expires else 3)
    assert is_value(value)
    read = committed_in(value)
    assert (read.offset, read.metadata) == (committed.offset, committed.metadata)
    assert times_in(value) == (committed.commit_timestamp, committed.expire_timestamp)
    for cut in range(len(value)):
        assert not is_value(value[:cut])
    assert not is_value(value + b"\0")


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_kafkas_is_read(version: int) -> None:
    value = encode_versioned(
        OffsetCommitValue(offset=42, metadata="mine", commit_timestamp=1_000, expire_timestamp=-1), version
    )
    assert is_value(value)
    assert committed_in(value) == CommittedOffset(Offset(42), metadata="mine", commit_timestamp=WallMs(1_000))


def test_a_later_version_is_not_taken_for_one_of_ours() -> None:
    assert not is_value(b"\0\4" + bytes(22))


@given(TEXTS, TEXTS, st.integers(0, (1 << 31) - 1))
def test_keys_are_those_of_the_schema(group: str, topic: str, number: int) -> None:
    place = place_of(TopicPartition(topic, number))
    key = group_prefix(group) + place
    assert key == encode_versioned(OffsetCommitKey(group=group, topic=topic, partition=number), 1)
    assert split_offset_key(key) == (group, place)
    assert partition_at(place) == (topic, number)
    assert topic_at(place) == topic
    for cut in range(len(key)):
        assert split_offset_key(key[:cut]) is None
