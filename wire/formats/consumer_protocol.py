"""What consumers tell each other through JoinGroup and SyncGroup (protocol type ``consumer``).

The broker passes these on unread, except for what it shows in descriptions of groups. Read them with
`wire.formats.versioned.decode_forward_compatible`.

Versions:
    1: the partitions that a member owns already (incremental rebalancing, KIP-429).
    2: the generation in which it was assigned them.
    3: rack (KIP-881).
"""

from collections.abc import Sequence

from wire.schema import BYTES, INT32, STRING, Data, Struct, array, field
from wire.types import Generation


class TopicPartition(Struct):
    """Several partitions of a topic, in spite of its name."""

    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """What a member wants, sent to the group's leader."""

    topics: Sequence[str] = field(array(STRING))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
    owned_partitions: Sequence[TopicPartition] = field(array(TopicPartition), versions="1+", ignorable=True)
    generation_id: Generation = field(INT32, versions="2+", default=-1, ignorable=True)
    rack_id: str | None = field(STRING, versions="3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """What a member gets, decided by the group's leader."""

    assigned_partitions: Sequence[TopicPartition] = field(array(TopicPartition))
    user_data: bytes | None = field(BYTES, nullable="0+", default=None)
