"""A client that consumes, transforms and produces in transactions, over the simulated network.

It knows nothing but the protocol: when in doubt it asks for a new epoch, which ends what it had open, and goes on from
the group's committed offset. So whatever happens to brokers, each input has to be in the output once.
"""

from typing import Any

import trio

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from simulation.cluster import SimulatedCluster
from wire.errors import Error
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.batch import iter_headers
from wire.records.builder import build_batch
from wire.records.record import Record, iter_records, read_control_type

PAUSE_S = 0.02
REQUEST_TIMEOUT_S = 5.0


class TransactionFailed(Exception):
    """The transaction cannot go on: a new epoch is needed."""


class Asking:
    """One client's connections to all brokers, and its look-ups of leaders and coordinators."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self._clients: dict[int, BrokerClient] = {}

    async def ask(self, broker_id: int, request: Any, version: int) -> Any:
        """Return a broker's response; None if it cannot be reached or does not answer."""
        if broker_id not in self.cluster.machines:
            await trio.sleep(PAUSE_S)
            return None
        client = self._clients.get(broker_id)
        if client is None:
            client = self._clients[broker_id] = self.cluster.client(broker_id, timeout_s=REQUEST_TIMEOUT_S)
        try:
            return await client.request(request, version)
        except ConnectionFailedError:
            await trio.sleep(PAUSE_S)
            return None

    def leader(self, topic: str, partition: int) -> int:
        """Return the leader of a partition in the highest epoch, -1 if there is none."""
        best = (-1, -1)
        for broker_id, broker in self.cluster.running().items():
            for each in broker.partition_descriptions():
                if (each["topic"], each["partition"]) == (topic, partition) and each["is_leader"]:
                    best = max(best, (each["leader_epoch"], broker_id))
        return best[1]

    async def coordinator(self, key_type: int, key: str) -> int:
        """Return the coordinator of a group (0) or a transactional id (1), -1 if none is known."""
        for broker_id in self.cluster.running():
            answer = await self.ask(
                broker_id, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4
            )
            if answer is not None and answer.coordinators[0].error_code == 0:
                return int(answer.coordinators[0].node_id)
        await trio.sleep(PAUSE_S)
        return -1

    async def read_committed(self, topic: str, partition: int) -> tuple[list[bytes], int, int]:
        """Read a partition with read_committed; return its values, the last stable offset, and the end."""
        values: list[bytes] = []
        offset = 0
        while True:
            leader = self.leader(topic, partition)
            asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=10,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=1,
                topics=[FetchTopic(topic=topic, partitions=[asked])],
            )
            answer = await self.ask(leader, request, 12)
            if answer is None:
                continue
            (found,) = answer.responses[0].partitions
            if found.error_code:
                await trio.sleep(PAUSE_S)
                continue
            offset = _take_committed(found, offset, values)
            if offset >= found.last_stable_offset:
                return values, found.last_stable_offset, found.high_watermark


def _take_committed(found: Any, offset: int, values: list[bytes]) -> int:
    """Collect the values of committed records by the client's rule; return the next offset to fetch."""
    aborted = sorted(found.aborted_transactions, key=lambda each: each.first_offset)
    dropped: set[int] = set()
    data = memoryview(bytes(found.records or b""))
    for position, header in iter_headers(data):
        while aborted and aborted[0].first_offset <= header.last_offset:
            dropped.add(aborted.pop(0).producer_id)
        records = list(iter_records(data, position, header))
        if header.is_control:
            if records and read_control_type(records[0].key).name == "ABORT":
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            values += [bytes(each.value) for each in records if each.offset >= offset]
        offset = header.next_offset
    return offset


class Transformer(Asking):
    """Reads the values of one partition and writes each to two others, a few in each transaction."""

    def __init__(
        self, cluster: SimulatedCluster, name: str, source: tuple[str, int], target: str, count: int
    ) -> None:
        super().__init__(cluster)
        self.producer = (-1, -1)
        self.transaction_timeout_ms = 8_000
        self.name = name
        self.source = source
        self.target = target
        self.count = count
        self.position = 0
        self.commits = 0
        self.aborts = 0
        self.failures = 0
        self.chance = cluster.random
        self._sequences: dict[int, int] = {}

    async def run(self) -> None:
        """Run until every input has been processed."""
        while True:
            await self.initialise()
            self.position = await self._committed()
            try:
                while self.position < self.count:
                    await self._transact()
                return
            except TransactionFailed:
                self.failures += 1

    async def initialise(self) -> None:
        """Get a new epoch, which ends what an earlier one left open."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.transaction_timeout_ms
        )
        while True:
            answer = await self.ask(await self.coordinator(1, self.name), request, 4)
            if answer is not None and not answer.error_code:
                self.producer = (answer.producer_id, answer.producer_epoch)
                self._sequences = {}
                return
            await trio.sleep(PAUSE_S)

    async def _committed(self) -> int:
        topic, partition = self.source
        request = OffsetFetchRequest(
            group_id=self.name,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
            require_stable=True,
        )
        while True:
            answer = await self.ask(await self.coordinator(0, self.name), request, 7)
            if answer is not None and not answer.error_code:
                (found,) = answer.topics[0].partitions
                if not found.error_code:
                    return max(found.committed_offset, 0)
            await trio.sleep(PAUSE_S)

    async def _transact(self) -> None:
        taken = range(self.position, min(self.position + self.chance.randint(1, 3), self.count))
        await self.begin()
        for partition in (0, 1):
            await self.produce(partition, [b"%d" % number for number in taken])
        offsets = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=self.name,
        )
        await self._step(1, offsets, 3, lambda answer: {answer.error_code})
        await self._step(0, self._commit_offset(taken.stop), 3, _topic_errors)
        commit = self.chance.random() < 0.75
        end = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        await self._step(1, end, 3, lambda answer: {answer.error_code}, repeats=False)
        if commit:
            self.commits += 1
            self.position = taken.stop
        else:
            self.aborts += 1

    async def _step(
        self, key_type: int, request: Any, version: int, errors: Any, *, repeats: bool = True
    ) -> None:
        """Send a request until a coordinator accepts it.

        Raises:
            TransactionFailed: it was refused, or got no answer and must not be repeated.
        """
        while True:
            coordinator = await self.coordinator(key_type, self.name)
            if coordinator < 0:
                continue
            answer = await self.ask(coordinator, request, version)
            if answer is None:
                if repeats:
                    continue
                # A repeated EndTxn can arrive late, in the next transaction (KAFKA-17754).
                raise TransactionFailed("no answer to EndTxn")
            codes = {Error.from_code(code) for code in errors(answer)}
            if codes == {Error.NONE}:
                return
            if not codes <= PASSING:
                raise TransactionFailed(codes)
            await trio.sleep(PAUSE_S)

    async def begin(self) -> None:
        """Add both partitions of the target to the transaction."""
        await self._step(1, self._add_partitions(), 3, _partition_errors)

    async def produce(self, partition: int, values: list[bytes]) -> None:
        """Write to the target; returns when it is acknowledged.

        Raises:
            TransactionFailed: it was refused.
        """
        first = self._sequences.get(partition, 0)
        records = [Record(index, 1, None, value) for index, value in enumerate(values)]
        while True:
            batch = build_batch(
                records,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                base_sequence=first,
                transactional=True,
            )
            data = PartitionProduceData(index=partition, records=bytearray(batch))
            request = ProduceRequest(
                transactional_id=self.name,
                acks=-1,
                timeout_ms=3_000,
                topic_data=[TopicProduceData(name=self.target, partition_data=[data])],
            )
            answer = await self.ask(self.leader(self.target, partition), request, 9)
            if answer is not None:
                error = Error.from_code(answer.responses[0].partition_responses[0].error_code)
                if error is Error.NONE:
                    self._sequences[partition] = first + len(values)
                    return
                if error not in PASSING:
                    raise TransactionFailed(error)
            await trio.sleep(PAUSE_S)

    def _add_partitions(self) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.target, partitions=[0, 1])],
        )

    def _commit_offset(self, offset: int) -> TxnOffsetCommitRequest:
        topic, partition = self.source
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )


def _partition_errors(answer: Any) -> set[int]:
    return {
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def _topic_errors(answer: Any) -> set[int]:
    return {each.error_code for topic in answer.topics for each in topic.partitions}


PASSING = frozenset(
    {
        Error.NONE,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.CONCURRENT_TRANSACTIONS,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.KAFKA_STORAGE_ERROR,
        Error.OPERATION_NOT_ATTEMPTED,
    }
)
"""After these errors the same request is sent again."""
