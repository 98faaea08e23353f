"""The records of ``__consumer_offsets``: those of commits and groups are written, those of groups are read.

Kafka's own formatter and Kafka's own coordinator read them: values are written at version 3 (an offset with an
expiry at 1, see `offset_bytes`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.coordinator.offset_bytes import Place, group_prefix
from cluster.statemachines.group import Group, GroupState, Member
from wire.formats.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from wire.formats.versioned import decode_versioned, encode_versioned
from wire.types import WallMs

GROUP_KEY_VERSION: Final = 2
_GROUP_VALUE_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """A record to write; ``build_batch`` takes it as it is."""

    timestamp: int
    key: bytes
    value: bytes | None
    headers: tuple[()] = ()


def offset_records(group_id: str, values: Mapping[Place, bytes | None], now: WallMs) -> list[KeyedRecord]:
    """Make the records of a commit; a value of None makes a tombstone."""
    prefix = group_prefix(group_id)
    return [KeyedRecord(now, prefix + place, value) for place, value in values.items()]


def group_value(group: Group, assignments: Mapping[str, bytes] | None) -> bytes:
    """Encode a group's present state.

    Args:
        group: The group.
        assignments: The new assignments of its members; None takes their present ones.
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
    return encode_versioned(value, _GROUP_VALUE_VERSION)


def group_record(group_id: str, value: bytes | None, now: WallMs) -> KeyedRecord:
    """Make the record of a group; with None its tombstone."""
    key = encode_versioned(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)
    return KeyedRecord(now, key, value)


def group_id_in(key: bytes) -> str:
    """Read a group's key.

    Raises:
        RemoteProtocolError: the bytes are not one.
    """
    return decode_versioned(GroupMetadataKey, key).group


def group_in(group_id: str, value: bytes) -> Group:
    """Rebuild a group: with members it is stable, as only a stored assignment is written with members.

    Raises:
        RemoteProtocolError: the bytes are not a group's value.
    """
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
        # The oldest records have no rebalance timeout: the session timeout then serves for both.
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
