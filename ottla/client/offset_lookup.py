"""ListOffsets: where logs begin and end, and where a time is in them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from ottla.client import runtime
from ottla.client.context import ClientContext
from ottla.client.errors import BrokerUnreachable, ClientError, error_for
from ottla.client.positions import Endpoint, Start, Tail
from wire.errors import Error
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.types import NO_BROKER, BrokerId, LeaderEpoch, TopicPartition, WallMs

Found = tuple[int, LeaderEpoch]
"""An offset and the leader epoch there."""
_LATEST: Final = Endpoint.LATEST.value


def _timestamp(start: Start) -> int:
    """Return the timestamp that ListOffsets is asked for, for a start that is not an offset."""
    if isinstance(start, Endpoint):
        return start.value
    if isinstance(start, Tail):
        return _LATEST
    assert isinstance(start, datetime)
    return int(start.timestamp() * 1000)


async def look_up(
    context: ClientContext, starts: Mapping[TopicPartition, Start], isolation: int
) -> dict[TopicPartition, Found]:
    """Return the offsets of starts; asks leaders, again and again, until each has answered.

    A time after the last record means the end.

    Raises:
        NotAuthorized: The principal may not read a topic.
        UnknownTopic: A topic is gone.
    """
    found: dict[TopicPartition, Found] = {}
    asked: dict[TopicPartition, int] = {}
    for partition, start in starts.items():
        if isinstance(start, int):
            found[partition] = (start, LeaderEpoch(-1))
        else:
            asked[partition] = _timestamp(start)
    found |= await list_offsets(context, asked, isolation)
    late = {partition: _LATEST for partition in asked if found[partition][0] < 0}
    found |= await list_offsets(context, late, isolation)
    tails = {partition: start.count for partition, start in starts.items() if isinstance(start, Tail)}
    if tails:
        earliest = dict.fromkeys(tails, Endpoint.EARLIEST.value)
        for partition, (first, _) in (await list_offsets(context, earliest, isolation)).items():
            found[partition] = (max(first, found[partition][0] - tails[partition]), LeaderEpoch(-1))
    return found


async def list_offsets(
    context: ClientContext, timestamps: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, Found]:
    """Ask the leaders for offsets by timestamp, until each has answered; -1 where there is no such record."""
    found: dict[TopicPartition, Found] = {}
    failures = 0
    while True:
        left = [partition for partition in timestamps if partition not in found]
        if not left:
            return found
        if failures:
            context.refresh.ask()
            await runtime.sleep(context.retry_backoff.delay_s(failures - 1))
        failures += 1
        async with runtime.open_nursery() as nursery:
            for leader, partitions in _by_leader(context, left).items():
                nursery.start_soon(_ask, context, leader, partitions, timestamps, isolation, found)


def _by_leader(
    context: ClientContext, partitions: Iterable[TopicPartition]
) -> dict[BrokerId, list[TopicPartition]]:
    led: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        leader = context.metadata.leader(partition)
        if leader is None:
            context.refresh.use(partition.topic)
        else:
            led.setdefault(leader.id, []).append(partition)
    return led


async def _ask(
    context: ClientContext,
    leader: BrokerId,
    partitions: list[TopicPartition],
    timestamps: Mapping[TopicPartition, int],
    isolation: int,
    found: dict[TopicPartition, Found],
) -> None:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        known = context.metadata.partition(partition)
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=LeaderEpoch(-1) if known is None else known.leader_epoch,
                timestamp=WallMs(timestamps[partition]),
            )
        )
    request = ListOffsetsRequest(
        replica_id=NO_BROKER,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=some) for name, some in topics.items()],
    )
    try:
        answer = await context.links.ask(leader, request)
    except BrokerUnreachable:
        return
    failures: list[ClientError] = []
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            error = Error.from_code(each.error_code)
            if error is Error.NONE:
                found[partition] = (each.offset, each.leader_epoch)
            elif not error.retriable:
                what = f"the offsets of {partition}"
                failures.append(error_for(error, what, topic=topic.name, partition=each.partition_index))
    if failures:
        raise failures[0]
