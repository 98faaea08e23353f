"""What readers get: committed transactions, nearer replicas, older formats."""

import pytest

from cluster.handlers import produce
from cluster.replication.leader.fetch_session import FetchParams
from cluster.replication.leader.replica_selector import RACK_AWARE, replica_selector
from storage.log import AppendOrigin
from tests.unit.handlers.calls import KeptCall
from tests.unit.replication.in_memory import P0, TOPIC, batch, fetch_request, partitions_of
from wire.errors import Error
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import peek_magic
from wire.records.end_transaction import build_end_transaction_marker
from wire.types import NO_BROKER, BrokerId


def transactional(count, sequence=0):
    return batch(count, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


def end_transaction(broker, *, commit):
    marker = build_end_transaction_marker(
        producer_id=7, producer_epoch=0, committed=commit, coordinator_epoch=0, timestamp=1_000_000
    )
    broker.replicas.append(
        [(P0, memoryview(bytearray(marker)))], 1, 0, lambda results: None, origin=AppendOrigin.COORDINATOR
    )


def test_readers_of_committed_data_stop_at_an_open_transaction(make_broker):
    broker = make_broker(transaction_partition_verification_enable="false")
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(2)
    broker.replicas.append([(P0, transactional(3))], 1, 0, lambda results: None)
    call = broker.fetch(2, committed=True)
    assert not call.responses
    data = partitions_of(broker.fetch(0, committed=True, max_wait_ms=0))[0]
    assert (data.last_stable_offset, data.high_watermark) == (2, 5)
    assert len(data.records) == broker.partition.log.offset_metadata(2).position
    end_transaction(broker, commit=False)
    woken = partitions_of(call)[0]
    assert woken.last_stable_offset == 6
    assert [(one.producer_id, one.first_offset) for one in woken.aborted_transactions] == [(7, 2)]


def test_readers_of_anything_are_not_told_of_aborted_transactions(broker):
    broker.lead(isr=(1,), replicas=(1,))
    broker.replicas.append([(P0, transactional(1))], 1, 0, lambda results: None)
    end_transaction(broker, commit=False)
    assert partitions_of(broker.fetch(0))[0].aborted_transactions is None


# KIP-392


@pytest.fixture
def racks(make_broker):
    broker = make_broker(replica_selector_class=RACK_AWARE)
    broker.live(1, 2, 3, racks={1: "a", 2: "b", 3: "b"})
    broker.lead()
    for _ in range(3):
        broker.produce(1)
    broker.fetch(3, follower=2)
    broker.fetch(2, follower=3)
    return broker


def test_a_consumer_is_sent_to_its_rack(racks):
    data = partitions_of(racks.fetch(1, rack="b"))[0]
    assert (data.preferred_read_replica, len(data.records)) == (2, 0)


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_others_are_served_by_the_leader(racks, rack):
    data = partitions_of(racks.fetch(1, rack=rack))[0]
    assert data.preferred_read_replica == -1
    assert len(data.records)


def test_nobody_is_sent_to_a_replica_that_lacks_the_offset_or_is_out_of_sync(racks):
    racks.partition.leader.remotes[2].log_start_offset = 2
    assert partitions_of(racks.fetch(1, rack="b"))[0].preferred_read_replica == 3
    racks.lead(isr=(1,))
    assert partitions_of(racks.fetch(1, rack="b", max_wait_ms=0))[0].preferred_read_replica == -1


def test_a_follower_serves_consumers_that_know_of_near_replicas(racks):
    racks.follow(2)
    data = partitions_of(racks.fetch(0, max_wait_ms=0))[0]
    assert data.error_code == Error.NONE
    (response,) = racks.call_fetch(named(0), 10).responses
    assert response.responses[0].partitions[0].error_code == Error.NOT_LEADER_OR_FOLLOWER


def test_selectors_by_name(broker):
    assert replica_selector(None, BrokerId(1), broker.metadata) is None
    with pytest.raises(ValueError, match="no replica selector com"):
        replica_selector("com.example.Selector", BrokerId(1), broker.metadata)
    select = replica_selector(RACK_AWARE, BrokerId(1), broker.metadata)
    broker.lead()
    assert select(broker.partition, None, FetchParams()) == NO_BROKER


# Old clients


def named(offset):
    request = fetch_request({0: offset}, max_wait_ms=0)
    request.topics[0].topic = TOPIC
    return request


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_old_clients_get_records_that_they_can_read(broker, version, magic):
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(3)
    (response,) = broker.call_fetch(named(0), version).responses
    data = response.responses[0].partitions[0]
    if magic == 2:
        assert data.records.size == broker.partition.log.size_bytes
    else:
        assert peek_magic(data.records, 0) == magic


def test_conversion_may_be_switched_off(broker):
    broker.zookeeper.configs[TOPIC] = {"message.downconversion.enable": "false"}
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(1)
    (response,) = broker.call_fetch(named(0), 3).responses
    assert response.responses[0].partitions[0].error_code == Error.UNSUPPORTED_VERSION


def test_zstd_topics_are_not_for_clients_that_cannot_read_them(broker):
    broker.zookeeper.configs[TOPIC] = {"compression.type": "zstd"}
    broker.lead(isr=(1,), replicas=(1,))
    broker.produce(1)
    (response,) = broker.call_fetch(named(0), 9).responses
    assert response.responses[0].partitions[0].error_code == Error.UNSUPPORTED_COMPRESSION_TYPE


# The Produce handler


class ProduceCall(KeptCall):
    """A call that can also end without an answer."""

    def __init__(self, broker, request, version=11, client_id="app"):
        super().__init__(broker, request, version, client_id=client_id)
        self.ends = []

    def skip(self):
        self.ends.append("skip")

    def close(self):
        self.ends.append("close")


def send(broker, records, *, acks=1, version=11, topic=TOPIC, client_id="app"):
    request = ProduceRequest(
        acks=acks,
        timeout_ms=100,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        ],
    )
    call = ProduceCall(broker, request, version, client_id)
    produce.begin(call)
    return call


def only(call):
    return call.responses[0].responses[0].partition_responses[0]


def test_without_acks_there_is_no_answer_and_errors_close(broker):
    broker.lead(isr=(1,), replicas=(1,))
    assert send(broker, batch(), acks=0).ends == ["skip"]
    assert send(broker, memoryview(b"junk"), acks=0).ends == ["close"]
    broker.follow(2)
    assert send(broker, batch(), acks=0).ends == ["close"]


def test_records_must_be_a_batch_of_format_2_from_version_3_on(broker):
    broker.lead(isr=(1,), replicas=(1,))
    for records in (None, memoryview(b""), memoryview(bytearray(80))):
        assert only(send(broker, records, version=3)).error_code == Error.INVALID_RECORD


def test_who_asks_the_wrong_broker_is_told_the_leader(broker):
    broker.follow(2)
    call = send(broker, batch())
    assert only(call).error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert only(call).current_leader.leader_id == 2
    assert [(one.node_id, one.host) for one in call.responses[0].node_endpoints] == [(2, "host2")]
    assert only(send(broker, batch(), version=9)).current_leader.leader_id == -1


def test_a_produce_that_waits_holds_no_buffer(broker):
    broker.lead()
    call = send(broker, batch(), acks=-1)
    assert not call.responses
    assert call.request is None
