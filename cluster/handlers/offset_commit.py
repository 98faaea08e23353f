"""OffsetCommit 0 to 9: a group's positions, answered when every in-sync replica has them.

Version 0 keeps them in ZooKeeper, under `/consumers/<group>/offsets`, as Kafka does. Version 1 can give each position a
timestamp, 2 to 4 a retention; both set the old clients' expiry. Version 9 differs only for members of the new group
protocol, which is not served. Partitions that do not exist are refused, the others committed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cluster.coordinator.offset_bytes import NO_EXPIRY, CommittedOffset
from cluster.handlers.bounded_concurrency import each_of
from cluster.handlers.context import HasConfig, HasGroups, HasMetadata, HasNursery, HasStore
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from wire.types import NO_TIMESTAMP, TopicPartition, WallMs

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_NO_RETENTION = -1


class _Broker(HasConfig, HasGroups, HasMetadata, HasNursery, HasStore, Protocol):
    """The parts of a broker that this API reaches."""


class _Sorted(NamedTuple):
    """The partitions of a request: those that exist, and the errors of the others."""

    asked: dict[TopicPartition, OffsetCommitRequestPartition]
    refused: dict[TopicPartition, Error]


def register(registry: "Registry") -> None:
    """Serve OffsetCommit."""
    registry.add(ApiKey.OFFSET_COMMIT, 0, 9, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Hand the positions to the coordinator, or to ZooKeeper."""
    request: OffsetCommitRequest = call.request
    asked, refused = _sort(call)
    if not asked:
        call.respond(_response(request, refused))
        return
    if call.version == 0:
        call.broker.nursery.start_soon(_commit_to_zookeeper, call, asked, refused, name="offset commit 0")
        return

    def answer(outcomes: Mapping[TopicPartition, Error]) -> None:
        call.respond(_response(request, {**refused, **outcomes}))

    now = call.broker.clock.wall_ms()
    retention = request.retention_time_ms
    expires = NO_EXPIRY if retention == _NO_RETENTION else WallMs(now + retention)
    call.broker.groups.offsets.commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets={
            partition: CommittedOffset(
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
                now if each.commit_timestamp == NO_TIMESTAMP else each.commit_timestamp,
                expires,
            )
            for partition, each in asked.items()
        },
        on_done=answer,
    )


async def _commit_to_zookeeper(
    call: "ApiCall[_Broker]",
    asked: dict[TopicPartition, OffsetCommitRequestPartition],
    refused: dict[TopicPartition, Error],
) -> None:
    request: OffsetCommitRequest = call.request
    broker = call.broker
    outcomes = dict(refused)

    async def commit(partition: TopicPartition) -> None:
        metadata = asked[partition].committed_metadata
        if metadata is not None and len(metadata) > broker.config.offset_metadata_max_bytes:
            outcomes[partition] = Error.OFFSET_METADATA_TOO_LARGE
            return
        try:
            await broker.store.write_consumer_offset(
                request.group_id, partition, asked[partition].committed_offset
            )
        except EXPECTED_FAILURES as failure:
            outcomes[partition] = failure_of(failure).error
        else:
            outcomes[partition] = Error.NONE

    await each_of(list(asked), commit)
    call.respond(_response(request, outcomes))


def _sort(call: "ApiCall[_Broker]") -> _Sorted:
    request: OffsetCommitRequest = call.request
    topics = call.broker.metadata.snapshot.topics
    found = _Sorted({}, {})
    for topic in request.topics:
        known = topics.get(topic.name, ())
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.partition_index in known:
                found.asked[partition] = each
            else:
                found.refused[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
    return found


def _response(request: OffsetCommitRequest, outcomes: Mapping[TopicPartition, Error]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=outcomes[TopicPartition(topic.name, each.partition_index)],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
