"""Where a group is in its partitions, beside where these end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, CommittedPosition, GroupDescription, GroupMember


class PositionRow(NamedTuple):
    """A partition as a group sees it; None where nothing is committed, nobody reads, or the leader is away."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member: "GroupMember | None"
    leader_epoch: int | None
    metadata: str


async def positions(
    admin: "Admin", group: "GroupDescription", committed: Mapping[TopicPartition, "CommittedPosition"]
) -> list[PositionRow]:
    """Return a group's partitions: those that it has committed in, and those that its members have."""
    from ottla.client.admin import FoundOffset

    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted(set(committed) | set(owners))
    ends: dict[TopicPartition, Offset] = {}
    if partitions:
        for partition, found in (await admin.list_offsets(dict.fromkeys(partitions, -1))).items():
            if isinstance(found, FoundOffset):
                ends[partition] = found.offset
    rows = []
    for partition in partitions:
        position = committed.get(partition)
        end = ends.get(partition)
        current = None if position is None else position.offset
        rows.append(
            PositionRow(
                group.group_id,
                partition.topic,
                partition.partition,
                current,
                end,
                None if current is None or end is None else max(end - current, 0),
                owners.get(partition),
                None if position is None or position.leader_epoch < 0 else position.leader_epoch,
                "" if position is None else position.metadata,
            )
        )
    return rows
