"""OffsetFetch 0 to 9: the positions that groups have committed; from version 8 on of several groups.

Version 0 reads the positions that OffsetCommit 0 keeps in ZooKeeper. From version 2 on no list of topics means all of
them; from 7 on a client may ask for UNSTABLE_OFFSET_COMMIT where an open transaction will change a position (KIP-447).
A partition without a position answers -1 without an error, except in version 0.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cluster.coordinator.offset_bytes import CommittedOffset
from cluster.handlers.bounded_concurrency import each_of
from cluster.handlers.context import HasGroups, HasMetadata, HasNursery, HasStore
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.zookeeper.json_data import MalformedZnodeError
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_Found = Mapping[TopicPartition, CommittedOffset | Error | None]


class _Broker(HasGroups, HasMetadata, HasNursery, HasStore, Protocol):
    """The parts of a broker that this API reaches."""


class _AskedTopic(Protocol):
    """A topic of a request; the message has two identical classes for it."""

    @property
    def name(self) -> str: ...
    @property
    def partition_indexes(self) -> Sequence[int]: ...


def register(registry: "Registry") -> None:
    """Serve OffsetFetch."""
    registry.add(ApiKey.OFFSET_FETCH, 0, 9, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Answer from the coordinator's state, or read ZooKeeper for version 0."""
    request: OffsetFetchRequest = call.request
    if call.version == 0:
        call.broker.nursery.start_soon(_fetch_from_zookeeper, call, name="offset fetch 0")
    elif call.version < 8:
        call.respond(_of_one_group(call))
    else:
        groups = [_of_group(call, each.group_id, each.topics) for each in request.groups]
        call.respond(OffsetFetchResponse(groups=groups))


async def _fetch_from_zookeeper(call: "ApiCall[_Broker]") -> None:
    request: OffsetFetchRequest = call.request
    broker = call.broker
    found: dict[TopicPartition, CommittedOffset | Error | None] = {}

    async def fetch(partition: TopicPartition) -> None:
        try:
            offset = await broker.store.read_consumer_offset(request.group_id, partition)
        except MalformedZnodeError:
            found[partition] = Error.UNKNOWN_SERVER_ERROR
        except EXPECTED_FAILURES as failure:
            found[partition] = failure_of(failure).error
        else:
            found[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION if offset is None else CommittedOffset(offset)

    topics = request.topics or ()
    known = broker.metadata.snapshot.topics
    for partition in _partitions(topics):
        if partition.partition in known.get(partition.topic, ()):
            found[partition] = None
        else:
            found[partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
    await each_of([partition for partition, outcome in found.items() if outcome is None], fetch)
    call.respond(OffsetFetchResponse(topics=_topics(topics, found)))


def _of_one_group(call: "ApiCall[_Broker]") -> OffsetFetchResponse:
    request: OffsetFetchRequest = call.request
    topics = request.topics
    error, found = call.broker.groups.offsets.committed(
        request.group_id,
        None if topics is None else _partitions(topics),
        require_stable=request.require_stable,
    )
    if error is not Error.NONE:
        if call.version == 1:
            # This version has no field for it except at each partition.
            found = dict.fromkeys(_partitions(topics or ()), error)
        else:
            return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(topics=_topics(_asked(found) if topics is None else topics, found))


def _of_group(
    call: "ApiCall[_Broker]", group_id: str, topics: Sequence[_AskedTopic] | None
) -> OffsetFetchResponseGroup:
    error, found = call.broker.groups.offsets.committed(
        group_id,
        None if topics is None else _partitions(topics),
        require_stable=call.request.require_stable,
    )
    if error is not Error.NONE:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=error)
    listed = []
    for topic in _asked(found) if topics is None else topics:
        partitions = []
        for index in topic.partition_indexes:
            offset, epoch, metadata, outcome = _position(found[TopicPartition(topic.name, index)])
            partitions.append(
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    metadata=metadata,
                    error_code=outcome,
                )
            )
        listed.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group_id, topics=listed)


def _topics(topics: Sequence[_AskedTopic], found: _Found) -> list[OffsetFetchResponseTopic]:
    listed = []
    for topic in topics:
        partitions = []
        for index in topic.partition_indexes:
            offset, epoch, metadata, outcome = _position(found[TopicPartition(topic.name, index)])
            partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    metadata=metadata,
                    error_code=outcome,
                )
            )
        listed.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return listed


def _position(found: CommittedOffset | Error | None) -> tuple[Offset, LeaderEpoch, str, Error]:
    if isinstance(found, CommittedOffset):
        return found.offset, found.leader_epoch, found.metadata, Error.NONE
    return NO_OFFSET, NO_LEADER_EPOCH, "", Error.NONE if found is None else found


def _partitions(topics: Sequence[_AskedTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _asked(found: _Found) -> list[OffsetFetchRequestTopic]:
    """Return the positions that were found as if they had been requested."""
    indexes: dict[str, list[int]] = {}
    for topic, partition in sorted(found):
        indexes.setdefault(topic, []).append(partition)
    return [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in indexes.items()]
