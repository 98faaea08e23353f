"""Reading single replicas, one broker at a time, to compare them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.admin.router import Router, raise_for
from wire.errors import Error
from wire.types import BrokerId, Offset, TopicId, TopicPartition, WallMs

DEBUGGER: Final = BrokerId(-2)
"""The replica id that any replica serves, leader or not, up to the high watermark that it knows."""
_EARLIEST: Final = WallMs(-2)


class ReplicaRead(NamedTuple):
    """What one replica returned.

    Attributes:
        error: the replica's error, `Error.NONE` if it has none.
        high_watermark: the one that the replica knows.
        records: batches, from the one that holds the offset; the last may be cut off.
    """

    error: Error
    high_watermark: Offset = Offset(-1)
    records: bytes = b""


class ReplicasAdmin:
    """The part of the admin client that reads from replicas, leaders or not."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def read_replicas(
        self,
        broker_id: BrokerId,
        offsets: Mapping[TopicPartition, Offset],
        topic_ids: Mapping[str, TopicId],
        *,
        partition_bytes: int,
        max_wait_ms: int,
    ) -> dict[TopicPartition, ReplicaRead]:
        """Read a broker's replicas of partitions, each from an offset on.

        Args:
            broker_id: Which broker.
            offsets: Where to read from.
            topic_ids: The topics' identities.
            partition_bytes: How much of each, at most; a larger batch is returned whole.
            max_wait_ms: How long it may wait for something to come.

        Raises:
            ClientError: the broker refuses.
            BrokerUnreachable: it does not live, or cannot be reached.
        """
        from wire.messages import fetch as api

        by_topic: dict[str, list[api.FetchPartition]] = {}
        for partition, offset in offsets.items():
            by_topic.setdefault(partition.topic, []).append(
                api.FetchPartition(
                    partition=partition.partition, fetch_offset=offset, partition_max_bytes=partition_bytes
                )
            )
        request = api.FetchRequest(
            replica_state=api.ReplicaState(replica_id=DEBUGGER),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[
                api.FetchTopic(topic=name, topic_id=topic_ids[name], partitions=partitions)
                for name, partitions in by_topic.items()
            ],
        )
        answer: api.FetchResponse = await self._router.ask_broker(broker_id, request)
        raise_for(answer.error_code, None, f"reading from broker {broker_id}")
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        return {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index): ReplicaRead(
                Error.from_code(data.error_code), data.high_watermark, bytes(data.records or b"")
            )
            for topic in answer.responses
            for data in topic.partitions
        }

    async def replica_start(self, broker_id: BrokerId, partition: TopicPartition) -> Offset | None:
        """Return where a broker's replica starts; None if the broker does not say.

        Raises:
            BrokerUnreachable: the broker does not live, or cannot be reached.
        """
        from wire.messages import list_offsets as api

        request = api.ListOffsetsRequest(
            replica_id=DEBUGGER,
            topics=[
                api.ListOffsetsTopic(
                    name=partition.topic,
                    partitions=[
                        api.ListOffsetsPartition(partition_index=partition.partition, timestamp=_EARLIEST)
                    ],
                )
            ],
        )
        answer: api.ListOffsetsResponse = await self._router.ask_broker(broker_id, request)
        ((found,),) = (topic.partitions for topic in answer.topics)
        return None if found.error_code else found.offset
