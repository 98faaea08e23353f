"""Apache Kafka's command-line tools against the cluster."""

import subprocess
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cluster.coordinator.java_hash import partition_for
from tests.compat.formatted_state import group_of, objects
from tests.patience import until


@pytest.fixture
def tool(cluster, kafka_java):
    def run(main: str, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*kafka_java, main, *arguments], input=stdin, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_topics_console_producer_and_consumer(cluster, tool) -> None:
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    topics = "org.apache.kafka.tools.TopicCommand"
    created = tool(
        topics, *servers, "--create", "--topic", "console", "--partitions", "3", "--replication-factor", "3"
    )
    assert "Created topic console" in created
    described = tool(topics, *servers, "--describe", "--topic", "console")
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 3" in described
    assert described.count("Isr: ") == 3
    assert "console" in tool(topics, *servers, "--list").split()
    lines = [f"line {i}" for i in range(200)]
    tool(
        "kafka.tools.ConsoleProducer",
        *servers,
        *("--topic", "console", "--request-required-acks", "all", "--compression-codec", "zstd"),
        stdin="\n".join(lines) + "\n",
    )
    read: list[str] = []
    for partition in range(3):
        out = tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *servers,
            *(
                "--topic",
                "console",
                "--partition",
                str(partition),
                "--offset",
                "earliest",
                "--timeout-ms",
                "3000",
            ),
        )
        read.extend(out.splitlines())
    assert sorted(read) == sorted(lines)
    offsets = tool("org.apache.kafka.tools.GetOffsetShell", *servers, "--topic", "console", "--time", "-1")
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == len(lines)
    tool(topics, *servers, "--alter", "--topic", "console", "--partitions", "5")
    assert "PartitionCount: 5" in tool(topics, *servers, "--describe", "--topic", "console")
    tool(topics, *servers, "--delete", "--topic", "console")
    assert "console" not in tool(topics, *servers, "--list").split()


def test_kafkas_formatters_read_what_groups_have_written(cluster, tool, make_topics) -> None:
    topic, group = "formatted", f"formatted-{uuid4().hex[:8]}"
    make_topics.create([topic], 1)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment())
    position = TopicPartition(topic, 0, 7)

    def commit() -> bool:
        try:
            consumer.commit(offsets=[position], asynchronous=False)
        except KafkaException:
            consumer.poll(0.1)  # a rebalance
            return False
        return True

    until(commit)
    number = partition_for(group, 50)
    for formatter, expected in (
        ("OffsetsMessageFormatter", {"offset": 7, "metadata": ""}),
        ("GroupMetadataMessageFormatter", {"protocolType": "consumer", "protocol": "range"}),
    ):
        out = tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "__consumer_offsets"),
            *("--partition", str(number), "--offset", "earliest", "--timeout-ms", "5000"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        )
        found = [each for each in objects(out) if group_of(each) == group]
        assert expected.items() <= found[-1]["value"]["data"].items(), found
    consumer.close()


def test_api_versions_are_read(cluster, tool) -> None:
    out = tool("kafka.admin.BrokerApiVersionsCommand", "--bootstrap-server", cluster.bootstrap_servers)
    assert "Produce(0): 0 to 11" in out
    assert "ERROR" not in out
