"""The records of ``__consumer_offsets``: what is written for a commit and a group, and what a record read back says.

Kafka's own formatter and Kafka's own coordinator read them: values are written at version 3 (an offset with an
expiry at 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.coordinator.committed_offsets import NO_EXPIRY, CommittedOffset
from cluster.statemachines.group import Group, GroupState, Member
from wire.formats.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wire.formats.versioned import decode_versioned, encode_versioned, peek_version
from wire.types import TopicPartition, WallMs

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_OFFSET_VALUE_VERSION: Final = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VALUE_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """A record to write; ``build_batch`` takes it as it is."""

    timestamp: int
    key: bytes
    value: bytes | None
    headers: tuple[()] = ()


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A record read back: an offset, or with None its end."""

    group: str
    partition: TopicPartition
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A record read back: a group, or with None its end."""

    group_id: str
    group: Group | None


def offset_record(
    group: str, partition: TopicPartition, committed: CommittedOffset | None, now: WallMs
) -> KeyedRecord:
    """Make the record of a commit; with None the one that ends it."""
    key = encode_versioned(
        OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition),
        _OFFSET_KEY_VERSION,
    )
    if committed is None:
        return KeyedRecord(now, key, None)
    expires = committed.expire_timestamp != NO_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
    )
    version = _OFFSET_VALUE_VERSION_WITH_EXPIRY if expires else _OFFSET_VALUE_VERSION
    return KeyedRecord(now, key, encode_versioned(value, version))


def group_record(group: Group, assignments: Mapping[str, bytes] | None, now: WallMs) -> KeyedRecord:
    """Make the record of a group as it stands.

    Args:
        group: The group.
        assignments: What its members are about to be assigned; None takes what they have.
        now: Wall time, the record's timestamp.
    """
    protocol = group.protocol_name
    members = [
        MemberMetadata(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            rebalance_timeout=m.rebalance_timeout_ms,
            session_timeout=m.session_timeout_ms,
            subscription=m.metadata(protocol),
            assignment=m.assignment if assignments is None else assignments.get(m.member_id, b""),
        )
        for m in group.members.values()
        if protocol is not None
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=WallMs(-1) if group.state_since is None else group.state_since,
        members=members,
    )
    return KeyedRecord(now, _group_key(group.group_id), encode_versioned(value, _GROUP_VALUE_VERSION))


def group_end_record(group_id: str, now: WallMs) -> KeyedRecord:
    """Make the record that ends a group."""
    return KeyedRecord(now, _group_key(group_id), None)


def read_record(key: bytes, value: bytes | None) -> OffsetRecord | GroupRecord | None:
    """Say what a record means; None for one of a kind that we do not know (a later Kafka's).

    Raises:
        RemoteProtocolError: the bytes are not what their version says.
    """
    version = peek_version(key)
    if version <= _OFFSET_KEY_VERSION:
        at = decode_versioned(OffsetCommitKey, key)
        return OffsetRecord(at.group, TopicPartition(at.topic, at.partition), _committed(value))
    if version == _GROUP_KEY_VERSION:
        group_id = decode_versioned(GroupMetadataKey, key).group
        return GroupRecord(group_id, None if value is None else _group(group_id, value))
    return None


def _group_key(group_id: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def _committed(value: bytes | None) -> CommittedOffset | None:
    if value is None:
        return None
    read = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp
    )


def _group(group_id: str, value: bytes) -> Group:
    """Rebuild a group: with members it is stable, as only a stored assignment is written with members."""
    read = decode_versioned(GroupMetadataValue, value)
    group = Group(
        group_id,
        state=GroupState.STABLE if read.members else GroupState.EMPTY,
        protocol_type=read.protocol_type or None,
        generation=read.generation,
        protocol_name=read.protocol,
        state_since=None if read.current_state_timestamp < 0 else read.current_state_timestamp,
    )
    for stored in read.members:
        # Rebalance time-outs are absent from the oldest records: the session's then serves for both.
        rebalance_timeout = (
            stored.rebalance_timeout if stored.rebalance_timeout >= 0 else stored.session_timeout
        )
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            rebalance_timeout,
            stored.session_timeout,
            ((read.protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )
        group.add(member, None)
    group.leader_id = read.leader
    return group
