"""The Fetch request of a session, by topic names or by topic ids, and the hints in its answer."""

from typing import TYPE_CHECKING, Final

from ottla.addresses import Address
from ottla.client.broker_link import BrokerLink
from ottla.client.context import ClientContext
from ottla.client.fetch_sessions import SessionRequest
from ottla.client.metadata import BrokerNode
from wire.apis import ApiKey
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from wire.types import NO_BROKER, NO_LEADER_EPOCH, NO_TOPIC_ID, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.fetch_settings import FetchSettings

_BY_NAME_MAX: Final = 12
_BY_ID_MAX: Final = 16
"""Version 17 is for KRaft's followers."""


def fetch_request(
    context: ClientContext,
    link: BrokerLink,
    said: SessionRequest,
    settings: "FetchSettings",
    max_wait_s: float,
) -> tuple[FetchRequest, int]:
    """Return a Fetch, and the newest version that it may be sent in.

    Topics go by their ids where the broker takes ids and all of them are known (KIP-516).
    """
    ids = {
        name: topic.topic_id
        for name in {partition.topic for partition in [*said.changed, *said.forgotten]}
        if (topic := context.metadata.topics.get(name)) is not None
    }
    by_id = link.serves(ApiKey.FETCH, _BY_NAME_MAX + 1) and all(
        topic.topic_id != NO_TOPIC_ID for topic in context.metadata.topics.values()
    )
    changed: dict[str, list[FetchPartition]] = {}
    for partition, place in said.changed.items():
        changed.setdefault(partition.topic, []).append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=place.leader_epoch,
                fetch_offset=Offset(place.offset),
                last_fetched_epoch=place.last_epoch
                if link.serves(ApiKey.FETCH, _BY_NAME_MAX)
                else NO_LEADER_EPOCH,
                partition_max_bytes=place.size_max,
            )
        )
    forgotten: dict[str, list[int]] = {}
    for partition in said.forgotten:
        forgotten.setdefault(partition.topic, []).append(partition.partition)
    request = FetchRequest(
        replica_id=NO_BROKER,
        max_wait_ms=int(max_wait_s * 1000),
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=settings.isolation,
        session_id=said.session_id,
        session_epoch=said.epoch,
        topics=[
            FetchTopic(topic=name, topic_id=TopicId(ids.get(name, NO_TOPIC_ID)), partitions=partitions)
            for name, partitions in changed.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=TopicId(ids.get(name, NO_TOPIC_ID)), partitions=numbers)
            for name, numbers in forgotten.items()
        ],
        rack_id=context.settings.rack or "",
    )
    return request, _BY_ID_MAX if by_id else _BY_NAME_MAX


def take_leader_hint(
    context: ClientContext, partition: TopicPartition, data: PartitionData, answer: FetchResponse
) -> None:
    """Take the new leader that an answer names (KIP-951)."""
    hint = data.current_leader
    if hint.leader_id >= 0:
        nodes = [
            BrokerNode(node.node_id, Address(node.host, node.port), node.rack)
            for node in answer.node_endpoints
        ]
        if context.metadata.apply_leader_hint(partition, hint.leader_id, hint.leader_epoch, nodes):
            for each in list(context.refresh.on_update):
                each()
