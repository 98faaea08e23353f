"""Committing a group's offsets, and reading what was committed."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client import runtime
from ottla.client.context import ClientContext
from ottla.client.coordinator_link import CoordinatorLink
from ottla.client.errors import BrokerUnreachable, CommitFailed, error_for
from ottla.client.membership import Membership, Reaction, reaction_to
from wire.errors import Error
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

_FETCH_ONE_GROUP_MAX: Final = 7


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition.

    Attributes:
        offset: The next offset to read.
        leader_epoch: The epoch of the record before it, -1 where unknown.
        metadata: What was committed with it.
    """

    offset: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""


async def commit_once(
    coordinator: CoordinatorLink, member: Membership, offsets: Mapping[TopicPartition, CommittedOffset]
) -> Reaction:
    """Commit once; return what to do about the answer.

    Raises:
        BrokerUnreachable: The coordinator cannot be reached, or did not answer.
        CommitFailed: Some offsets were refused for good.
        FencedInstance: Another member has our instance id.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, committed in offsets.items():
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=Offset(committed.offset),
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
    )
    answer = await coordinator.ask(request)
    refused: list[TopicPartition] = []
    reaction = Reaction.GO_ON
    for topic in answer.topics:
        for each in topic.partitions:
            error = Error.from_code(each.error_code)
            if error is Error.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # the topic was deleted
            if error in (Error.OFFSET_METADATA_TOO_LARGE, Error.INVALID_COMMIT_OFFSET_SIZE):
                refused.append(TopicPartition(topic.name, each.partition_index))
                continue
            found = reaction_to(error, member.group_id, member.instance_id)
            if found is not Reaction.GO_ON:
                reaction = found
    if reaction is Reaction.FIND_COORDINATOR:
        coordinator.forget()
    if refused:
        raise CommitFailed(f"group {member.group_id!r}: the metadata of offsets are too large", refused)
    return reaction


async def fetch_committed(
    context: ClientContext,
    coordinator: CoordinatorLink,
    group_id: str,
    partitions: Sequence[TopicPartition],
    *,
    require_stable: bool,
) -> dict[TopicPartition, CommittedOffset]:
    """Return what a group has committed; partitions without a commit are left out.

    Args:
        context: The client's connections.
        coordinator: The group's.
        group_id: The group.
        partitions: Which ones.
        require_stable: Wait for open transactions that commit offsets (KIP-447).

    Raises:
        NotAuthorized: The principal may not use the group.
    """
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in topics.items()],
        require_stable=require_stable,
    )
    failures = 0
    while True:
        try:
            answer = await coordinator.ask(request, at_most=_FETCH_ONE_GROUP_MAX)
        except BrokerUnreachable:
            pass
        else:
            codes = [answer.error_code, *(p.error_code for t in answer.topics for p in t.partitions)]
            worst = next((code for code in codes if code), 0)
            if not worst:
                return {
                    TopicPartition(topic.name, each.partition_index): CommittedOffset(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
                    for topic in answer.topics
                    for each in topic.partitions
                    if each.committed_offset >= 0
                }
            error = Error.from_code(worst)
            if error in (Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE):
                coordinator.forget()
            elif not error.retriable:
                raise error_for(error, f"the committed offsets of group {group_id!r}")
        await runtime.sleep(context.retry_backoff.delay_s(failures))
        failures += 1
