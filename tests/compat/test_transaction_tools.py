"""Transactions as operators see them: Kafka's kafka-transactions and ours, on the same transactions."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from tests.compat import matrix
from tests.compat.test_operating_tools import Tools
from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import build_batch
from wire.records.record import Record

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def tools(cluster, kafka_java, tmp_path_factory) -> Iterator[Tools]:
    program = Tools(kafka_java, cluster.bootstrap_servers, tmp_path_factory.mktemp("tools"))
    yield program
    program.close()


def transactions(tools: Tools, *arguments: str) -> list[list[str]]:
    """Run Kafka's tool, and return the rows of its table; its options for the cluster come first."""
    printed = []
    line = "\t".join((TRANSACTIONS, "--bootstrap-server", tools.bootstrap, *arguments))
    for answer in tools.answers(line):
        if not answer.startswith("|"):
            assert int(answer) == 0, (arguments, printed)
            break
        printed.append(answer[1:])
    return [row.split() for row in printed[1:] if row.strip()]


def ottla(cluster, *arguments: str):
    """Run our command, and return its JSON."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ottla", "transactions"),
            *("--bootstrap-server", cluster.bootstrap_servers, "--json", *arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def open_transaction(cluster, make_topics, request) -> tuple[Producer, str, str]:
    """A producer that has one transaction open, with its id and topic."""
    topic = f"{matrix.RUN}-{request.node.name}"
    make_topics.create([topic])
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": topic,
            "linger.ms": 0,
            # Longer than the tools take on a busy machine, so that it does not time out meanwhile.
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(60) == 0
    return producer, topic, topic


def test_what_is_open_is_listed_and_described_alike(cluster, tools, open_transaction) -> None:
    producer, name, topic = open_transaction
    (listed,) = [row for row in transactions(tools, "list") if row[0] == name]
    (ours,) = [row for row in ottla(cluster, "list", "--state", "Ongoing") if row["transactional_id"] == name]
    assert listed == [name, str(ours["coordinator"]), str(ours["producer_id"]), "Ongoing"]
    (row,) = transactions(tools, "describe", "--transactional-id", name)
    described = ottla(cluster, "describe", "--transactional-id", name)
    assert row[1:6] == [
        name,
        str(described["producer_id"]),
        str(described["producer_epoch"]),
        "Ongoing",
        str(described["timeout_ms"]),
    ]
    assert row[-1] == f"{topic}-0"
    assert described["partitions"] == [f"{topic}-0"]
    for broker in ((), ("--broker-id", "0"), ("--broker-id", "1"), ("--broker-id", "2")):
        where = ("describe-producers", "--topic", topic, "--partition", "0", *broker)
        (theirs,) = transactions(tools, *where)
        (found,) = ottla(cluster, *where)
        assert theirs[0] == str(found["producer_id"])
        assert theirs[-1] == str(found["transaction_start"]) == "0"
    # A coordinator knows it: it does not hang, however long it is open.
    hanging = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert transactions(tools, *hanging) == []
    assert ottla(cluster, *hanging) == []
    producer.commit_transaction(60)
    until(lambda: ottla(cluster, "describe", "--transactional-id", name)["state"] == "CompleteCommit")


def test_a_duration_filter_leaves_out_what_began_later(cluster, tools, open_transaction) -> None:
    producer, name, _ = open_transaction
    hour = str(3_600_000)
    assert name not in [row[0] for row in transactions(tools, "list", "--duration-filter", hour)]
    listed = ottla(cluster, "list", "--duration-filter", hour)
    assert name not in [row["transactional_id"] for row in listed]
    producer.abort_transaction(60)


@pytest.mark.parametrize("aborted_by", ["kafka", "ottla"])
def test_a_hanging_transaction_is_found_and_aborted(cluster, tools, make_topics, aborted_by: str) -> None:
    """A batch of a producer that no coordinator knows arrives while verification is off."""
    topic = f"{matrix.RUN}-hanging-{aborted_by}"
    make_topics.create([topic], partitions=1)
    setting = ("--entity-type", "brokers", "--entity-default", "--alter")
    switch = "transaction.partition.verification.enable"
    tools.run(CONFIGS, *setting, "--add-config", f"{switch}=false")
    try:
        producer_id = hang(cluster, topic)
    finally:
        tools.run(CONFIGS, *setting, "--delete-config", switch)
    hanging = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    ((place, _, theirs, *_),) = transactions(tools, *hanging)
    assert (place, theirs) == (topic, str(producer_id))
    (found,) = ottla(cluster, *hanging)
    assert (found["producer_id"], found["transaction_start"]) == (producer_id, 0)
    abort = ("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    if aborted_by == "kafka":
        transactions(tools, *abort)
    else:
        ottla(cluster, *abort)
    assert transactions(tools, *hanging) == []
    assert ottla(cluster, *hanging) == []


def hang(cluster, topic: str) -> int:
    """Write a transactional batch that no coordinator knows of; return its producer id."""
    addresses = cluster.bootstrap_servers.split(",")
    with RawClient(addresses[0]) as client:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        producer_id = client.ask(asked, 4).producer_id
    # The setting reaches each broker a moment after the tool has ended.
    until(lambda: any(produce_unverified(address, topic, producer_id) is Error.NONE for address in addresses))
    return producer_id


def produce_unverified(address: str, topic: str, producer_id: int) -> Error:
    records = [Record(0, 1_700_000_000_000, None, b"late")]
    batch = build_batch(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        ],
    )
    with RawClient(address) as client:
        (found,) = client.ask(request, 9).responses
    return Error(found.partition_responses[0].error_code)


def test_an_aborted_producer_hears_of_it(cluster, open_transaction) -> None:
    """A marker that the coordinator does not know of still ends the transaction where it is written."""
    producer, name, topic = open_transaction
    ottla(cluster, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    (found,) = ottla(cluster, "describe-producers", "--topic", topic, "--partition", "0")
    assert found["transaction_start"] == -1
    assert ottla(cluster, "describe", "--transactional-id", name)["state"] == "Ongoing"
    second = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    second.init_transactions(60)
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
