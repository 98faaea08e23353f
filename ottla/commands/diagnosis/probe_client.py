"""Producing to, consuming from and committing for single partitions: as much of a client as a probe needs.

It does not retry: what fails is what the probe is there to see.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.client.admin.router import Router
from ottla.client.errors import BrokerUnreachable, refusal
from wire.errors import Error
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records
from wire.types import NO_TOPIC_ID, BrokerId, Offset, TopicId, WallMs

FETCH_BYTES = 1 << 20


class Found(NamedTuple):
    """A record that was consumed."""

    offset: Offset
    value: bytes


class ProbeClient:
    """A client of one topic. Its calls raise `ClientError`, and learn the leaders anew after that.

    Args:
        router: Connections to the brokers.
        topic: The topic's name.
    """

    def __init__(self, router: Router, topic: str) -> None:
        self.topic = topic
        self._router = router
        self._topic_id: TopicId = NO_TOPIC_ID
        self._leaders: Mapping[int, BrokerId] = {}
        self._coordinator = BrokerId(-1)

    def close(self) -> None:
        """Close the connections."""
        self._router.close()

    async def leader(self, partition: int) -> BrokerId:
        """Return the last known leader of a partition.

        Raises:
            ClientError: it has none.
        """
        if partition not in self._leaders:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
            )
            (topic,) = (await self._router.metadata(request)).topics
            self._topic_id = topic.topic_id
            self._leaders = {
                each.partition_index: each.leader_id for each in topic.partitions if each.leader_id >= 0
            }
        if partition not in self._leaders:
            raise refusal(Error.LEADER_NOT_AVAILABLE)
        return self._leaders[partition]

    async def produce(self, partition: int, value: bytes, now: WallMs, timeout_ms: int) -> Offset:
        """Append one record to every replica that is in sync, and return its offset."""
        batch = build_batch([Record(Offset(0), now, None, value, ())])
        request = ProduceRequest(
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=self.topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
                )
            ],
        )
        answer = await self._at_leader(partition, request)
        ((result,),) = (topic.partition_responses for topic in answer.responses)
        self._check(result.error_code)
        offset: Offset = result.base_offset
        return offset

    async def consume(self, partition: int, position: Offset, max_wait_ms: int) -> list[Found]:
        """Return the records from a position on; none if none comes in time."""
        await self.leader(partition)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    topic_id=self._topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES
                        )
                    ],
                )
            ],
        )
        answer = await self._at_leader(partition, request)
        self._check(answer.error_code)
        found = []
        for topic in answer.responses:
            for data in topic.partitions:
                self._check(data.error_code)
                records = data.records or b""
                for at, header in iter_headers(records):
                    found += [
                        Found(Offset(record.offset), record.value or b"")
                        for record in iter_records(records, at, header)
                        if record.offset >= position
                    ]
        return found

    async def commit(self, group: str, positions: Mapping[int, Offset]) -> None:
        """Commit positions for a group without members."""
        if self._coordinator < 0:
            answer = await self._router.ask_any(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
            (coordinator,) = answer.coordinators
            self._check(coordinator.error_code)
            self._coordinator = coordinator.node_id
        request = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                        for index, offset in positions.items()
                    ],
                )
            ],
        )
        try:
            answer = await self._router.ask_broker(self._coordinator, request)
        except BrokerUnreachable:
            self._coordinator = BrokerId(-1)
            raise
        for topic in answer.topics:
            for partition in topic.partitions:
                self._check(partition.error_code)

    async def _at_leader(self, partition: int, request: Any) -> Any:
        try:
            return await self._router.ask_broker(await self.leader(partition), request)
        except BrokerUnreachable:
            self._leaders = {}
            raise

    def _check(self, code: int) -> None:
        if code:
            self._leaders = {}
            self._coordinator = BrokerId(-1)
            raise refusal(Error.from_code(code))
