"""Asking where leader epochs end, of leaders whose Fetch does not compare them itself (KIP-320; Fetch before 12)."""

from collections.abc import Mapping

from ottla.client.broker_link import BrokerLink
from ottla.client.fetch_sessions import FetchPlace
from wire.apis import ApiKey
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.types import NO_BROKER, TopicPartition

_FETCH_COMPARES_FROM = 12
_CONSUMERS_MAY_ASK_FROM = 3
"""Earlier versions were for brokers only (in Kafka 2.3 and later consumers may use them, too)."""


def must_be_asked(link: BrokerLink) -> bool:
    """Return whether a broker is to be asked before a fetch from a new leader, since its Fetch says nothing."""
    return not link.serves(ApiKey.FETCH, _FETCH_COMPARES_FROM) and link.serves(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, _CONSUMERS_MAY_ASK_FROM
    )


async def epoch_ends(
    link: BrokerLink, places: Mapping[TopicPartition, FetchPlace]
) -> OffsetForLeaderEpochResponse:
    """Ask the leader of partitions where the epochs end that were read last.

    Raises:
        BrokerUnreachable: No answer came.
    """
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for partition, place in places.items():
        topics.setdefault(partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=place.leader_epoch,
                leader_epoch=place.last_epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=NO_BROKER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=some) for name, some in topics.items()],
    )
    answer: OffsetForLeaderEpochResponse = await link.request(request)
    return answer
