"""The positions of the source's groups, translated: as checkpoints, and as the offsets of groups at the target.

A group at the target is set only while it has no members, never back beyond the offset that was set before, and never
past the end of its partition there.
"""

from collections.abc import Mapping

from ottla.client import ClientError, Producer
from ottla.client.admin import Admin, CommittedPosition, FoundOffset
from ottla.mirror.counters import MirrorCounters
from ottla.mirror.formats import Checkpoint
from ottla.mirror.offset_map import OffsetMap
from ottla.mirror.selection import Selection, checkpoint_due
from wire.errors import Error
from wire.types import Offset, TopicPartition

_LATEST = -1
_WITHOUT_MEMBERS = ("Empty", "Dead")


class GroupKeeper:
    """Translates the groups of the source.

    Args:
        source: The source.
        target: The target.
        selection: Chooses the groups, and names the topics.
        offsets: Translates offsets.
        counters: Counts what was done.
        own_group: The flow's own group, which is left out.
        sets_offsets: Whether the target's groups are set, or only checkpoints written.
    """

    def __init__(
        self,
        source: Admin,
        target: Admin,
        selection: Selection,
        offsets: OffsetMap,
        counters: MirrorCounters,
        own_group: str,
        *,
        sets_offsets: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._offsets = offsets
        self._counters = counters
        self._own_group = own_group
        self._sets_offsets = sets_offsets
        self._written: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    async def translated(self) -> dict[str, list[Checkpoint]]:
        """Return the position of each group, for the partitions whose offsets can be translated."""
        found: dict[str, list[Checkpoint]] = {}
        for listed in await self._source.list_groups():
            group_id = listed.group_id
            if group_id == self._own_group or not self._selection.takes_group(group_id):
                continue
            try:
                committed = await self._source.committed_offsets(group_id)
            except ClientError:
                continue  # it has gone, or its coordinator is moving: the next look finds it
            points = []
            for place, position in sorted(committed.items()):
                downstream = self._offsets.translate(place, position.offset)
                if downstream is not None and self._selection.takes_topic(place.topic):
                    called = TopicPartition(self._selection.target_name(place.topic), place.partition)
                    points.append(
                        Checkpoint(group_id, called, position.offset, downstream, position.metadata)
                    )
            if points:
                found[group_id] = points
        return found

    async def sync(self, out: Producer, checkpoints_topic: str) -> None:
        """Write the checkpoints that are due, and set the groups at the target.

        Raises:
            DeliveryErrors: The target does not take the checkpoints.
        """
        found = await self.translated()
        for points in found.values():
            for point in points:
                before = self._written.get((point.group, point.place))
                if checkpoint_due(before, point.upstream, point.downstream):
                    key, value = point.encode()
                    await out.post(checkpoints_topic, value, key=key, partition=0)
                    self._counters.checkpoints += 1
                    self._written[point.group, point.place] = (point.upstream, point.downstream)
        await out.flush()
        if self._sets_offsets:
            self._counters.groups = 0
            for group_id, points in found.items():
                self._counters.groups += await self._set(group_id, points)

    async def _set(self, group_id: str, points: list[Checkpoint]) -> bool:
        """Set a group at the target if it has no members; return whether its offsets are right."""
        try:
            description = await self._target.describe_group(group_id)
            if description.state not in _WITHOUT_MEMBERS:
                return False
            has = await self._target.committed_offsets(group_id)
            ends = await self._target.list_offsets({point.place: _LATEST for point in points})
            offsets = _wanted(points, has, ends)
            if not offsets:
                return True
            results = await self._target.commit_offsets(group_id, offsets)
        except ClientError:
            return False  # a coordinator or leader is moving: the next look sets it
        return all(error is Error.NONE for error in results.values())


def _wanted(
    points: list[Checkpoint],
    has: Mapping[TopicPartition, CommittedPosition],
    ends: Mapping[TopicPartition, object],
) -> dict[TopicPartition, CommittedPosition]:
    """Return the offsets to set: forwards only, and not past the end."""
    wanted = {}
    for point in points:
        end = ends.get(point.place)
        if not isinstance(end, FoundOffset):
            continue
        offset = min(point.downstream, end.offset)
        if point.place not in has or has[point.place].offset < offset:
            wanted[point.place] = CommittedPosition(Offset(offset), metadata=point.metadata)
    return wanted
