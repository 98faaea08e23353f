"""Administration of groups: describe, list, delete; drop offsets that expired or whose topics were deleted."""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import trio

from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_records import group_record, offset_records
from cluster.coordinator.hosted_groups import HostedGroup
from cluster.coordinator.offset_bytes import Place, place_of
from cluster.coordinator.subscriptions import subscribed_topics
from cluster.statemachines.group import CONSUMER_PROTOCOL_TYPE, FIRST_GENERATION, Group, GroupState, Member
from wire.errors import Error
from wire.types import TopicPartition

logger = logging.getLogger(__name__)

CLASSIC: Final = "classic"
"""The only type of groups here."""
_EXPIRY_SLICE: Final = 5_000
"""Offsets checked between two turns of the loop."""


class DescribedMember(NamedTuple):
    """A member as an operator sees it; only a stable group has metadata and assignments."""

    member: Member
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group as an operator sees it."""

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


NO_DESCRIPTION: Final = GroupDescription("")


class GroupAdmin:
    """Describes, lists, deletes and cleans up the groups that this broker coordinates.

    Args:
        coordinator: Where the groups are.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._hosted = coordinator.hosted

    def describe(self, group_id: str) -> tuple[Error, GroupDescription]:
        """Describe a group; one that does not exist is described as dead."""
        error = self._hosted.status(group_id, empty_allowed=True)
        if error is not Error.NONE:
            return error, NO_DESCRIPTION
        hosted = self._hosted.find(group_id)
        if hosted is None:
            return Error.NONE, GroupDescription(GroupState.DEAD.value)
        return Error.NONE, _description(hosted.group)

    def list(self, states: Collection[str] = (), types: Collection[str] = ()) -> tuple[Error, list[Group]]:
        """Return the groups that are known here, in these states and of these types (all if none are named).

        With COORDINATOR_LOAD_IN_PROGRESS the list is incomplete.
        """
        loading = any(partition.is_loading for partition in self._hosted.led)
        error = Error.COORDINATOR_LOAD_IN_PROGRESS if loading else Error.NONE
        if types and CLASSIC not in {name.lower() for name in types}:
            return error, []
        wanted = {state.lower() for state in states}
        return error, [
            hosted.group
            for hosted in self._hosted.groups()
            if not wanted or hosted.group.state.value.lower() in wanted
        ]

    def delete(self, group_id: str) -> Error:
        """Delete a group that has no members, with its offsets."""
        error = self._hosted.status(group_id, empty_allowed=True)
        if error is not Error.NONE:
            return error
        hosted = self._hosted.find(group_id)
        if hosted is None or hosted.group.state is GroupState.DEAD:
            return Error.GROUP_ID_NOT_FOUND
        if hosted.group.state is not GroupState.EMPTY:
            return Error.NON_EMPTY_GROUP
        self._discard(hosted, hosted.offsets.places())
        self._remove(hosted)
        logger.info("group %s was deleted", group_id)
        return Error.NONE

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[Error, dict[TopicPartition, Error]]:
        """Delete offsets of topics that no member subscribes to; return an error for all, or one for each partition."""
        error = self._hosted.status(group_id)
        if error is not Error.NONE:
            return error, {}
        hosted = self._hosted.find(group_id)
        if hosted is None or hosted.group.state is GroupState.DEAD:
            return Error.GROUP_ID_NOT_FOUND, {}
        group = hosted.group
        results = dict.fromkeys(partitions, Error.NONE)
        if group.state is not GroupState.EMPTY:
            if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                return Error.NON_EMPTY_GROUP, {}
            subscribed = subscribed_topics(group)
            for partition in partitions:
                if subscribed is None or partition.topic in subscribed:
                    results[partition] = Error.GROUP_SUBSCRIBED_TO_TOPIC
        self._discard(hosted, [place_of(p) for p, error in results.items() if error is Error.NONE])
        self._remove_if_over(hosted)
        return Error.NONE, results

    def partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the offsets that groups committed in deleted partitions."""
        places = [place_of(partition) for partition in partitions]
        for hosted in tuple(self._hosted.groups()):
            if self._discard(hosted, places):
                self._remove_if_over(hosted)

    async def expire(self) -> None:
        """Drop the offsets that have outlived their retention, and the groups that are then empty.

        Cancelled, it has dropped some; the next pass goes on.
        """
        settings = self._coordinator.settings
        looked_at = dropped = 0
        for hosted in tuple(self._hosted.groups()):
            group = hosted.group
            if not self._hosted.led.is_current(hosted.partition) or group.state is GroupState.DEAD:
                continue
            now = self._coordinator.clock.wall_ms()
            topics = subscribed_topics(group) if hosted.offsets.kept else None
            over = hosted.offsets.expired(group, topics, now, settings.offsets_retention_ms)
            dropped += self._end(hosted, [place for place in over if hosted.offsets.drop_expired(place)])
            self._remove_if_over(hosted)
            looked_at += 1 + len(hosted.offsets)
            if looked_at >= _EXPIRY_SLICE:
                looked_at = 0
                await trio.lowlevel.checkpoint()
        if dropped:
            logger.info("%d committed offsets have expired", dropped)

    def _discard(self, hosted: HostedGroup, places: Iterable[Place]) -> int:
        """Forget offsets, and write their tombstones."""
        return self._end(hosted, [place for place in places if hosted.offsets.discard(place)])

    def _end(self, hosted: HostedGroup, places: Sequence[Place]) -> int:
        if places:
            now = self._coordinator.clock.wall_ms()
            records = offset_records(hosted.group.group_id, dict.fromkeys(places), now)
            self._coordinator.log.append_and_forget(hosted.partition.number, records)
        return len(places)

    def _remove_if_over(self, hosted: HostedGroup) -> None:
        group = hosted.group
        if group.state is GroupState.EMPTY and hosted.offsets.is_empty and not group.pending_members:
            self._remove(hosted)

    def _remove(self, hosted: HostedGroup) -> None:
        group = hosted.group
        self._coordinator.end(hosted, Error.COORDINATOR_NOT_AVAILABLE)
        hosted.partition.drop(hosted)
        # A group that never had a generation was never written: only its offsets were.
        if group.generation > FIRST_GENERATION:
            now = self._coordinator.clock.wall_ms()
            self._coordinator.log.append_and_forget(
                hosted.partition.number, [group_record(group.group_id, None, now)]
            )


def _description(group: Group) -> GroupDescription:
    is_stable = group.state is GroupState.STABLE and group.protocol_name is not None
    protocol = (group.protocol_name or "") if is_stable else ""
    return GroupDescription(
        group.state.value,
        group.protocol_type or "",
        protocol,
        tuple(
            DescribedMember(
                member,
                member.metadata(protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ),
    )
