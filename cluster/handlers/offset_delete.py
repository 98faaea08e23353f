"""OffsetDelete 0: forget a group's positions in topics that none of its members subscribes to (KIP-496)."""

from typing import TYPE_CHECKING, Protocol

from cluster.handlers.context import HasGroups, HasMetadata
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasGroups, HasMetadata, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve OffsetDelete."""
    registry.add(ApiKey.OFFSET_DELETE, 0, 0, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Delete the positions and answer at once, without waiting for the tombstones to be written."""
    request: OffsetDeleteRequest = call.request
    topics = call.broker.metadata.snapshot.topics
    outcomes: dict[TopicPartition, Error] = {}
    asked = []
    for topic in request.topics:
        known = topics.get(topic.name, ())
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.partition_index in known:
                asked.append(partition)
            else:
                outcomes[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
    error, deleted = call.broker.groups.admin.delete_offsets(request.group_id, asked)
    if error is not Error.NONE:
        call.respond(OffsetDeleteResponse(error_code=error))
        return
    outcomes |= deleted
    call.respond(
        OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=outcomes[TopicPartition(topic.name, each.partition_index)],
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    )
