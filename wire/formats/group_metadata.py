"""Keys and values of ``__consumer_offsets``: committed offsets, and the members of groups.

The version of a key says what it is: 0 and 1 an `OffsetCommitKey`, 2 a `GroupMetadataKey`; later ones belong to group
types that we do not serve, and are skipped. A record without a value deletes what its key names.

Versions of `OffsetCommitValue`:
    1: an expire timestamp, set by commits that carry a retention time.
    2: none again.
    3: leader epoch.
    4: compact lengths and tagged fields (flexible): read, not written.

Versions of `GroupMetadataValue`:
    1: rebalance timeout.
    2: when the group entered its present state.
    3: group instance id (static membership).
    4: compact lengths and tagged fields (flexible): read, not written.
"""

from collections.abc import Sequence

from wire.schema import BYTES, INT32, INT64, STRING, Data, Struct, array, field
from wire.types import Generation, LeaderEpoch, Offset, WallMs


class OffsetCommitKey(Data, versions="0-1"):
    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    offset: Offset = field(INT64)
    leader_epoch: LeaderEpoch = field(INT32, versions="3+", default=-1, ignorable=True)
    metadata: str = field(STRING)
    commit_timestamp: WallMs = field(INT64)
    expire_timestamp: WallMs = field(INT64, versions="1", default=-1, ignorable=True)


class GroupMetadataKey(Data, versions="2"):
    group: str = field(STRING)


class MemberMetadata(Struct):
    """Timeouts are in milliseconds."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, versions="1+", default=-1, ignorable=True)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    """A group between two rebalances; one without members has generation 0 or the last one."""

    protocol_type: str = field(STRING)
    generation: Generation = field(INT32)
    protocol: str | None = field(STRING, nullable="0+")
    leader: str | None = field(STRING, nullable="0+")
    current_state_timestamp: WallMs = field(INT64, versions="2+", default=-1, ignorable=True)
    members: Sequence[MemberMetadata] = field(array(MemberMetadata))
