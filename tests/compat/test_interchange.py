"""One log directory that Apache Kafka 3.9 and Ottla open in turn: each finds everything the other has left.

A broker of one kind stops, or is killed, and one of the other kind starts with the same id on the same
directory. The broker that has it must return every record, find offsets and times with the other's indexes, know the
other's leader epochs, hold producers to the sequences that the other has seen, and know its consumer groups.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.management_client import ManagementClient
from ottla.testing.ports import free_port_block
from ottla.zookeeper_server import ZooKeeperServer
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.group_history import GroupHistory
from tests.compat.znodes import Znodes
from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import read_header
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.types import ProducerEpoch, ProducerId

BROKER = 7
TOPIC = "handed-over"
RECORDS = 600
FIRST_TIME = 2_000_000_000_000
"""In the future: retention leaves the records alone, and no marker of a transaction is found by their times."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
PRODUCER, EPOCH = ProducerId(77_000), ProducerEpoch(3)
"""An idempotent producer that the test plays itself."""


class OttlaBroker:
    """A broker of ours in the foreground, on the files of a `KafkaBroker`."""

    def __init__(self, files: KafkaBroker) -> None:
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(Path(sys.executable).parent / "ottla"), "broker", str(self._files.properties)]
        with (self._files.directory / "ottla.out").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            with ManagementClient(self._files.log_directory / "management.sock") as client:
                os.kill(client.call("describe")["pid"], signal.SIGKILL)
            self._process.wait(60)
            self._process = None


class HandedOver:
    """The directory, the broker that has it, and what was written to it."""

    def __init__(self, kafka: KafkaBroker, znodes: Znodes) -> None:
        self.address = kafka.address
        self._kinds = {"kafka": kafka, "ottla": OttlaBroker(kafka)}
        self._znodes = znodes
        self._holder = ""
        self._records: list[tuple[int, bytes, int]] = []
        self._time = FIRST_TIME
        self._sequence = 0
        self._last_batch_at = -1
        self._epoch_ends: dict[int, int] = {}

    def start(self, kind: str) -> None:
        """Start the broker of a kind, and wait until it leads."""
        self._holder = kind
        self._kinds[kind].start()
        self._znodes.wait_brokers([BROKER])
        until(self._answers)

    def end(self, how: str) -> None:
        """Stop or kill the broker, and wait until its registration is gone."""
        self._epoch_ends[self._znodes.partition_state(TOPIC, 0)["leader_epoch"]] = self.log_end()
        getattr(self._kinds[self._holder], how)()
        self._znodes.wait_brokers([])

    def leave(self) -> None:
        """Kill the brokers that still run."""
        for broker in self._kinds.values():
            broker.kill()

    def produce(self) -> None:
        """Add records in each codec, each with its own timestamp."""
        for codec in CODECS:
            producer = Producer(
                {"bootstrap.servers": self.address, "compression.type": codec, "log_level": 0, "linger.ms": 5}
            )
            for _ in range(RECORDS // len(CODECS)):
                time = self._next_time()
                value = b"%s %d " % (codec.encode(), time) + b"x" * 50
                delivered = partial(self._delivered, value=value, time=time)
                producer.produce(TOPIC, value, partition=0, timestamp=time, on_delivery=delivered)
                producer.poll(0)
            assert producer.flush(60) == 0

    def produce_in_transactions(self) -> None:
        """Add one transaction that is committed and one that is aborted; only Kafka coordinates them so far."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(30)
        for end, text in ((producer.commit_transaction, b"kept"), (producer.abort_transaction, b"dropped")):
            producer.begin_transaction()
            for _ in range(10):
                time = self._next_time()
                delivered = partial(self._delivered, value=text, time=time)
                producer.produce(TOPIC, text, partition=0, timestamp=time, on_delivery=delivered)
            assert producer.flush(60) == 0
            end(30)

    def check_records(self) -> None:
        """Read all of it, transactions that were aborted included, and then without them."""
        assert self._read(0, "read_uncommitted") == self._records
        committed = [record for record in self._records if record[1] != b"dropped"]
        assert self._read(0, "read_committed") == committed

    def check_lookups(self) -> None:
        """Find records in the middle by time and by offset, with the indexes that the other broker left."""
        with RawClient(self.address) as client:
            for offset, _value, time in self._records[:: len(self._records) // 50]:
                asked = ListOffsetsPartition(partition_index=0, timestamp=time)
                topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
                answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
                (found,) = answer.topics[0].partitions
                assert (found.error_code, found.offset, found.timestamp) == (0, offset, time)
                wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
                fetch = FetchRequest(max_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
                (data,) = client.ask(fetch, 11).responses[0].partitions
                header = read_header(data.records)
                assert header.base_offset <= offset <= header.last_offset

    def check_leader_epochs(self) -> None:
        """Check the end offset of each earlier broker's leader epoch."""
        for epoch, end in self._epoch_ends.items():
            asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            topic = OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])
            with RawClient(self.address) as client:
                answer = client.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 4)
            (found,) = answer.topics[0].partitions
            assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, end)

    def check_producer(self) -> None:
        """Repeat the last batch, skip one, use an old epoch, and only then continue the sequence."""
        if self._last_batch_at >= 0:
            assert self._send(self._sequence - 5) == (Error.NONE, self._last_batch_at)
            assert self._send(self._sequence + 5)[0] is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
            old = ProducerEpoch(EPOCH - 1)
            assert self._send(self._sequence, old)[0] is Error.INVALID_PRODUCER_EPOCH
        end = self.log_end()
        time = self._next_time()
        assert self._send(self._sequence, time=time) == (Error.NONE, end)
        self._records += [(end + i, b"played %d" % (self._sequence + i), time + i) for i in range(5)]
        self._sequence += 5
        self._last_batch_at = end

    def log_end(self) -> int:
        """Return the end of the log."""
        consumer = self._consumer("read_uncommitted")
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
        consumer.close()
        return end

    def _send(self, sequence: int, epoch: ProducerEpoch = EPOCH, time: int = FIRST_TIME) -> tuple[Error, int]:
        records = [Record(i, time + i, None, b"played %d" % (sequence + i)) for i in range(5)]
        batch = build_batch(records, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence)
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        with RawClient(self.address) as client:
            answer = client.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 9)
        (delivered,) = answer.responses[0].partition_responses
        return Error.from_code(delivered.error_code), delivered.base_offset

    def _next_time(self) -> int:
        self._time += 10
        return self._time

    def _read(self, offset: int, isolation: str) -> list[tuple[int, bytes, int]]:
        consumer = self._consumer(isolation)
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        read = []
        while True:
            message = consumer.poll(60)
            assert message is not None, "the end of the partition does not come"
            error = message.error()
            if error is None:
                read.append((message.offset(), message.value(), message.timestamp()[1]))
            elif error.code() == KafkaError._PARTITION_EOF:
                break
        consumer.close()
        return read

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "log_level": 0,
            }
        )

    def _delivered(self, error, message, value: bytes, time: int) -> None:
        assert error is None, error
        self._records.append((message.offset(), value, time))

    def _answers(self) -> bool:
        """Whether the broker knows its cluster and leads.

        Apache Kafka registers before it listens and listens before its controller has told it anything; the
        leader in ZooKeeper may be from before the last stop; and librdkafka believes an empty cluster for minutes.
        """
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
        try:
            with RawClient(self.address) as client:
                cluster = client.ask(MetadataRequest(topics=[]), 9)
                answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
        except OSError:
            return False
        (found,) = answer.topics[0].partitions
        leads = found.error_code == Error.NONE or not self._epoch_ends
        return leads and [each.node_id for each in cluster.brokers] == [cluster.controller_id]


@pytest.fixture
def handed_over(tmp_path: Path, kafka_java: list[str]) -> Iterator[HandedOver]:
    port = free_port_block(2)
    zookeeper = ZooKeeperServer.launch(tmp_path / "zookeeper", port)
    try:
        zookeeper.wait_serving()
        kafka = KafkaBroker(kafka_java, tmp_path / "broker", BROKER, port + 1, zookeeper.address, SETTINGS)
        with Znodes(zookeeper.address) as znodes:
            znodes.make("/brokers/ids")
            story = HandedOver(kafka, znodes)
            yield story
            story.leave()
    finally:
        zookeeper.stop()


@pytest.mark.parametrize("first", ["kafka", "ottla"])
def test_a_directory_goes_from_hand_to_hand(handed_over: HandedOver, first: str) -> None:
    second = "ottla" if first == "kafka" else "kafka"
    handed_over.start(first)
    new = NewTopic(TOPIC, 1, 1, config={"segment.bytes": "20000", "index.interval.bytes": "512"})
    admin = AdminClient({"bootstrap.servers": handed_over.address})
    admin.create_topics([new])[TOPIC].result(timeout=60)
    groups = GroupHistory(handed_over.address, TOPIC)
    hands = ((first, "stop"), (second, "stop"), (first, "kill"), (second, "kill"), (first, "stop"))
    for turn, (kind, how) in enumerate(hands):
        if turn:
            handed_over.start(kind)
            handed_over.check_records()
            handed_over.check_lookups()
            handed_over.check_leader_epochs()
            groups.check()
        groups.go_on()
        handed_over.check_producer()
        handed_over.produce()
        if kind == "kafka":
            handed_over.produce_in_transactions()
        handed_over.check_records()
        handed_over.check_lookups()
        handed_over.end(how)
