"""Consumer groups: list and describe them, and change their offsets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.admin.router import MOVING, Router, raise_for
from ottla.client.errors import refusal
from wire.errors import Error, RemoteProtocolError
from wire.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition

_GROUPS = 0
_CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it."""

    group_id: str
    protocol_type: str
    state: str
    coordinator: BrokerId
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group; its assignment is empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members; the state of one that does not exist is ``Dead``."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class CommittedPosition:
    """Where a group is in a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""


class GroupsAdmin:
    """The admin client's calls for consumer groups. Needs brokers of version 3.0 or later."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """Return the groups of all coordinators, sorted.

        Args:
            states: Only groups in these states; all, where none are named.
            types: Only groups of these types, likewise.

        Raises:
            ClientError: a coordinator refuses.
            BrokerUnreachable: one cannot be reached: the list would not be whole.
        """
        from wire.messages import list_groups as api

        request = api.ListGroupsRequest(states_filter=states, types_filter=types)
        found: list[ListedGroup] = []
        for broker_id in sorted((await self._router.refresh()).brokers):

            async def ask(broker_id: BrokerId = broker_id) -> api.ListGroupsResponse:
                answer: api.ListGroupsResponse = await self._router.ask_broker(broker_id, request)
                raise_for(answer.error_code, None, f"the groups of broker {broker_id}")
                return answer

            answer = await self._router.until_settled(ask)
            found.extend(
                ListedGroup(each.group_id, each.protocol_type, each.group_state, broker_id, each.group_type)
                for each in answer.groups
            )
        return sorted(found, key=lambda group: group.group_id)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Describe a group.

        Raises:
            ClientError: the coordinator refuses.
        """
        from wire.messages import describe_groups as api

        request = api.DescribeGroupsRequest(groups=[group_id])

        async def ask() -> GroupDescription:
            coordinator = await self._group_coordinator(group_id)
            answer: api.DescribeGroupsResponse = await self._router.ask_broker(coordinator, request)
            (group,) = answer.groups
            raise_for(group.error_code, None, f"group {group_id!r}")
            members = tuple(
                GroupMember(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    _assignment(group.protocol_type, each.member_assignment),
                )
                for each in group.members
            )
            return GroupDescription(
                group_id, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
            )

        return await self._router.until_settled(ask)

    async def committed_offsets(self, group_id: str) -> dict[TopicPartition, CommittedPosition]:
        """Return all the offsets that a group has committed.

        Raises:
            ClientError: the coordinator refuses.
        """
        from wire.messages import offset_fetch as api

        request = api.OffsetFetchRequest(groups=[api.OffsetFetchRequestGroup(group_id=group_id, topics=None)])

        async def ask() -> dict[TopicPartition, CommittedPosition]:
            answer: api.OffsetFetchResponse = await self._router.ask_broker(
                await self._group_coordinator(group_id), request
            )
            (group,) = answer.groups
            raise_for(group.error_code, None, f"the offsets of group {group_id!r}")
            return {
                TopicPartition(topic.name, each.partition_index): CommittedPosition(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
                for topic in group.topics
                for each in topic.partitions
                if each.error_code == 0 and each.committed_offset >= 0
            }

        return await self._router.until_settled(ask)

    async def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedPosition]
    ) -> dict[TopicPartition, Error]:
        """Set offsets of a group that has no members, and return the result of each.

        Raises:
            ClientError: the coordinator cannot be found in time.
        """
        from wire.messages import offset_commit as api

        request = api.OffsetCommitRequest(
            group_id=group_id,
            topics=[
                api.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        api.OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offsets[TopicPartition(name, partition)].offset,
                            committed_leader_epoch=offsets[TopicPartition(name, partition)].leader_epoch,
                            committed_metadata=offsets[TopicPartition(name, partition)].metadata,
                        )
                        for partition in partitions
                    ],
                )
                for name, partitions in _by_topic(offsets).items()
            ],
        )

        async def ask() -> dict[TopicPartition, Error]:
            answer: api.OffsetCommitResponse = await self._router.ask_broker(
                await self._group_coordinator(group_id), request
            )
            results = {
                TopicPartition(topic.name, each.partition_index): Error.from_code(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }
            for error in results.values():
                if error in MOVING:
                    raise refusal(error)
            return results

        return await self._router.until_settled(ask)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Error]:
        """Delete groups that have no members, and return the result of each."""
        from wire.messages import delete_groups as api

        outcomes = {}
        for group_id in group_ids:

            async def ask(group_id: str = group_id) -> Error:
                request = api.DeleteGroupsRequest(groups_names=[group_id])
                answer: api.DeleteGroupsResponse = await self._router.ask_broker(
                    await self._group_coordinator(group_id), request
                )
                (result,) = answer.results
                error = Error.from_code(result.error_code)
                if error in MOVING:
                    raise refusal(error)
                return error

            outcomes[group_id] = await self._router.until_settled(ask)
        return outcomes

    async def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Error]:
        """Delete offsets of topics that no member subscribes to, and return the result of each.

        Raises:
            ClientError: the coordinator refuses all: there is no such group, or it has members of another protocol.
        """
        from wire.messages import offset_delete as api

        request = api.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                api.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[api.OffsetDeleteRequestPartition(partition_index=each) for each in numbers],
                )
                for name, numbers in _by_topic(partitions).items()
            ],
        )

        async def ask() -> dict[TopicPartition, Error]:
            answer: api.OffsetDeleteResponse = await self._router.ask_broker(
                await self._group_coordinator(group_id), request
            )
            raise_for(answer.error_code, None, f"group {group_id!r}")
            return {
                TopicPartition(topic.name, each.partition_index): Error.from_code(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self._router.until_settled(ask)

    async def _group_coordinator(self, group_id: str) -> BrokerId:
        return await self._router.find_coordinator(_GROUPS, group_id, f"group {group_id!r}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _assignment(protocol_type: str, data: bytes) -> tuple[TopicPartition, ...]:
    """Read what a member was assigned; nothing if its protocol is not the consumers', or the bytes are malformed."""
    if protocol_type != _CONSUMER or not data:
        return ()
    from wire.formats.consumer_protocol import ConsumerProtocolAssignment
    from wire.formats.versioned import decode_forward_compatible

    try:
        assignment = decode_forward_compatible(ConsumerProtocolAssignment, data)
    except RemoteProtocolError:
        return ()
    return tuple(
        sorted(
            TopicPartition(each.topic, partition)
            for each in assignment.assigned_partitions
            for partition in each.partitions
        )
    )
