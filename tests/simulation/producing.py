"""Stories in which a producer writes, and every record that was acknowledged is there in the end."""

import trio

from tests.simulation.kill_at_every_write import TOPIC, Telling
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records


class Producing(Telling):
    """A story with a producer that repeats what was not acknowledged; a subclass starts `produce`.

    Attributes:
        acknowledged: The acknowledged values, in order.
        acknowledged_by: The broker that acknowledged the last one.
    """

    def __init__(self, cluster) -> None:
        super().__init__(cluster)
        self.acknowledged: list[bytes] = []
        self.acknowledged_by = -1

    async def check(self) -> None:
        acknowledged = list(self.acknowledged)
        # Wait for the leader that is read from to acknowledge: the high watermark of a new one lags for a moment.
        self.acknowledged_by = -1
        await self.cluster.wait(lambda: self.acknowledged_by == self.leader())
        # A producer that retries can write a record twice, but never out of order.
        first_seen = list(dict.fromkeys(await self._read()))
        assert [value for value in first_seen if value in set(acknowledged)] == acknowledged

    async def produce(self) -> None:
        number = 0
        while True:
            value = b"record %d" % number
            record = Record(offset=0, timestamp=1, key=None, value=value, headers=[], sequence=-1)
            data = PartitionProduceData(index=0, records=bytearray(build_batch([record])))
            topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
            leader = self.leader()
            response = await self.ask(leader, request, 9)
            if response is not None and not response.responses[0].partition_responses[0].error_code:
                self.acknowledged.append(value)
                self.acknowledged_by = leader
                number += 1
            await trio.sleep(0.02)

    async def _read(self) -> list[bytes]:
        leader = self.leader()
        values: list[bytes] = []
        offset, end = 0, self.partition(leader)["high_watermark"]
        while offset < end:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
            request = FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1 << 20, topics=topics)
            (found,) = (await self.ask(leader, request, 12)).responses[0].partitions
            assert found.error_code == 0
            records = memoryview(bytes(found.records or b""))
            for position, header in iter_headers(records):
                values += [each.value for each in iter_records(records, position, header)]
                offset = header.base_offset + header.last_offset_delta + 1
        return values
