"""``ottla verify-replicas`` reports equal replicas as equal, and names what differs."""

from pathlib import Path

from click.testing import CliRunner
from confluent_kafka import Producer

from ottla.commands.main import main
from ottla.testing import Cluster
from ottla.testing.replica_files import replica_directory
from tests.integration.operations.operating import BROKERS, Operator
from wire.types import TopicPartition


def verify(cluster: Cluster, topics: str, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main,
        [
            *("verify-replicas", "--broker-list", cluster.bootstrap_servers, "--topics-include", topics),
            *("--until-end", "--max-wait-ms", "10", *arguments),
        ],
    )
    return done.exit_code, done.output


def fill(cluster: Cluster, topic: str, records: int = 500) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.num.messages": 20}
    )
    for number in range(records):
        producer.produce(topic, b"value %d" % number, b"k%d" % (number % 9), number % 2)
    assert producer.flush(60) == 0


def test_equal_replicas_are_found_equal_and_a_flipped_bit_is_found(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("same", (0, 1), (1, 2))
    operator.place("damaged", BROKERS, BROKERS)
    fill(cluster, "same")
    fill(cluster, "damaged")
    code, said = verify(cluster, "same|damaged", "--fetch-size", "1000")
    assert code == 0, said
    assert "0 differences" in said
    assert "max lag is 0 for partition" in said
    cluster.stop(2)
    directory = Path(cluster.broker(2)["directory"]) / "logs"
    (segment,) = replica_directory(directory, TopicPartition("damaged", 0)).glob("*.log")
    data = bytearray(segment.read_bytes())
    data[data.index(b"value 40")] ^= 1
    segment.write_bytes(data)
    cluster.start(2)
    cluster.wait_in_sync("damaged", 2)
    cluster.wait_in_sync("same", 2, replicas=2)
    code, said = verify(cluster, "same|damaged")
    assert code == 1
    assert "partition damaged-0: has unmatched bytes at offset " in said
    assert "1 differences" in said
    code, said = verify(cluster, "same")
    assert code == 0, said


def test_what_cannot_be_verified_is_said(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("alone", (1,))
    fill_one = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    fill_one.produce("alone", b"x", partition=0)
    assert fill_one.flush(60) == 0
    code, said = verify(cluster, "alone")
    assert code == 0, said
    code, said = verify(cluster, "no-such-topic")
    assert code == 1
    assert "no topic fits" in said
    code, said = verify(cluster, "(")
    assert code == 1
    assert "invalid regex" in said
