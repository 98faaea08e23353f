"""TxnOffsetCommit 0 to 4: a group's positions, which take effect when a transaction commits (KIP-98, KIP-447).

From version 3 on a member can be named, and is checked as in OffsetCommit; this does not count as a heartbeat.
Partitions that do not exist are refused, the others committed.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from cluster.coordinator.offset_bytes import CommittedOffset
from cluster.coordinator.offsets_log import Writer
from cluster.handlers.context import HasGroups, HasMetadata, HasReplicas
from cluster.handlers.transaction_errors import known_error
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.coordinator.offset_commits import OnVerified
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasGroups, HasMetadata, HasReplicas, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve TxnOffsetCommit."""
    registry.add(ApiKey.TXN_OFFSET_COMMIT, 0, 4, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Pass the positions to the group's coordinator, which holds them until the transaction's marker."""
    request: TxnOffsetCommitRequest = call.request
    now = call.broker.clock.wall_ms()
    topics = call.broker.metadata.snapshot.topics
    offsets: dict[TopicPartition, CommittedOffset] = {}
    refused: dict[TopicPartition, Error] = {}
    for topic in request.topics:
        known = topics.get(topic.name, ())
        for each in topic.partitions:
            at = TopicPartition(topic.name, each.partition_index)
            if each.partition_index in known:
                offsets[at] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", now
                )
            else:
                refused[at] = Error.UNKNOWN_TOPIC_OR_PARTITION

    def answer(outcomes: Mapping[TopicPartition, Error]) -> None:
        call.respond(_response(call, {**refused, **outcomes}))

    if not offsets:
        answer({})
        return
    call.broker.groups.offsets.commit_in_transaction(
        request.group_id,
        writer=Writer(request.producer_id, request.producer_epoch),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        offsets=offsets,
        on_done=answer,
        verify=partial(_verify, call),
    )


def _verify(call: "ApiCall[_Broker]", at: TopicPartition, on_verified: "OnVerified") -> None:
    request: TxnOffsetCommitRequest = call.request
    call.broker.replicas.verified_appends.verify(
        request.transactional_id, at, request.producer_id, request.producer_epoch, on_verified
    )


def _response(call: "ApiCall[_Broker]", outcomes: Mapping[TopicPartition, Error]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=known_error(
                            call,
                            ApiKey.TXN_OFFSET_COMMIT,
                            outcomes[TopicPartition(topic.name, each.partition_index)],
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )
