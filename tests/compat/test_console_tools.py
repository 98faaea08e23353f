"""Apache Kafka's command-line tools against the cluster."""

import subprocess

import pytest


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


def test_api_versions_are_read(cluster, tool) -> None:
    out = tool("kafka.admin.BrokerApiVersionsCommand", "--bootstrap-server", cluster.bootstrap_servers)
    assert "Produce(0): 0 to 11" in out
    assert "ERROR" not in out
