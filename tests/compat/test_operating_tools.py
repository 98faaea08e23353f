"""What operators do with Apache Kafka's own tools: all in one virtual machine, each test on a topic of its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.compat.java_program import JavaProgram
from tests.patience import until

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SLOW = 1_000
FAST = 100_000_000


class Tools(JavaProgram):
    """The program java/Tools.java, driven line by line."""

    def __init__(self, java: Sequence[str], bootstrap: str, directory: Path) -> None:
        super().__init__(java, "Tools.java", log=directory / "stderr.log")
        self.bootstrap = bootstrap
        self._directory = directory

    def run(self, tool: str, *arguments: str, expect: int = 0) -> str:
        """Run a tool, require its exit status, and return its output."""
        printed = []
        for line in self.answers("\t".join((tool, "--bootstrap-server", self.bootstrap, *arguments))):
            if not line.startswith("|"):
                assert int(line) == expect, (tool, arguments, printed)
                break
            printed.append(line[1:])
        return "".join(printed)

    def file(self, content: Mapping[str, Any]) -> str:
        """Write an input file for a tool, and return its path."""
        path = self._directory / f"{len(list(self._directory.iterdir()))}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def place(self, topic: str, assignment: str) -> None:
        """Create a topic on the given brokers."""
        self.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment)


@pytest.fixture(scope="module")
def tools(cluster, kafka_java, tmp_path_factory) -> Iterator[Tools]:
    program = Tools(kafka_java, cluster.bootstrap_servers, tmp_path_factory.mktemp("tools"))
    yield program
    program.close()


def produce(tools: Tools, topic: str, count: int, size: int = 100) -> None:
    producer = Producer({"bootstrap.servers": tools.bootstrap, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, bytes(size), partition=0)
    assert producer.flush(60) == 0


def test_partitions_are_reassigned(tools: Tools) -> None:
    tools.place("moved-by-tool", "0:1,1:2")
    produce(tools, "moved-by-tool", 2_000)
    listed = tools.file({"version": 1, "topics": [{"topic": "moved-by-tool"}]})
    proposed = tools.run(
        REASSIGN, "--topics-to-move-json-file", listed, "--broker-list", "0,1,2", "--generate"
    )
    assert '"replicas":[0,1]' in proposed.split("Proposed partition reassignment configuration")[0]
    file = tools.file(
        {
            "version": 1,
            "partitions": [
                {"topic": "moved-by-tool", "partition": 0, "replicas": [2, 1]},
                {"topic": "moved-by-tool", "partition": 1, "replicas": [0, 2]},
            ],
        }
    )
    moved = ("--reassignment-json-file", file)
    begun = tools.run(REASSIGN, *moved, "--execute", "--throttle", str(SLOW))
    assert "Successfully started partition reassignments for moved-by-tool-0,moved-by-tool-1" in begun
    assert "moved-by-tool-0: replicas: 2,1,0. adding: 2. removing: 0." in tools.run(REASSIGN, "--list")
    assert "is still in progress" in tools.run(REASSIGN, *moved, "--verify")
    assert "Successfully cancelled" in tools.run(REASSIGN, *moved, "--cancel")
    until(lambda: "No partition reassignments found" in tools.run(REASSIGN, "--list"))
    tools.run(REASSIGN, *moved, "--execute", "--throttle", str(FAST))
    until(lambda: "is still in progress" not in tools.run(REASSIGN, *moved, "--verify"))
    assert tools.run(REASSIGN, *moved, "--verify").count("is completed") == 2
    described = tools.run(TOPICS, "--describe", "--topic", "moved-by-tool")
    assert "Replicas: 2,1" in described
    assert "throttled" not in described


def test_leaders_are_elected(tools: Tools) -> None:
    tools.place("elected-by-tool", "0:1,1:0")
    order = {"topic": "elected-by-tool", "partition": 0, "replicas": [1, 0]}
    moved = ("--reassignment-json-file", tools.file({"version": 1, "partitions": [order]}))
    tools.run(REASSIGN, *moved, "--execute")
    until(lambda: "is completed" in tools.run(REASSIGN, *moved, "--verify"))
    named = tools.file({"partitions": [{"topic": "elected-by-tool", "partition": 0}]})
    elected = tools.run(ELECT, "--election-type", "preferred", "--path-to-json-file", named)
    assert "Successfully completed leader election (PREFERRED) for partitions elected-by-tool-0" in elected
    again = ("--election-type", "preferred", "--topic", "elected-by-tool", "--partition", "0")
    assert "Valid replica already elected" in tools.run(ELECT, *again)
    unclean = ("--election-type", "unclean", "--topic", "elected-by-tool", "--partition", "1")
    assert "Valid replica already elected" in tools.run(ELECT, *unclean)
    tools.run(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    unknown = ("--election-type", "preferred", "--topic", "nowhere", "--partition", "0")
    assert "UnknownTopicOrPartition" in tools.run(ELECT, *unknown, expect=1)


def test_configurations_are_altered(tools: Tools) -> None:
    tools.place("configured-by-tool", "0:1")
    topic = ("--entity-type", "topics", "--entity-name", "configured-by-tool")
    added = "retention.ms=3600000,cleanup.policy=[compact,delete]"
    assert "Completed updating config" in tools.run(CONFIGS, "--alter", *topic, "--add-config", added)
    described = tools.run(CONFIGS, "--describe", *topic)
    assert "retention.ms=3600000" in described
    assert "cleanup.policy=compact,delete" in described
    tools.run(CONFIGS, "--alter", *topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools.run(CONFIGS, "--describe", *topic)
    assert "InvalidConfigurationException" in tools.run(
        CONFIGS, "--alter", *topic, "--add-config", "nonsense=1", expect=1
    )
    for entity, setting in (
        ("--entity-default", "log.cleaner.threads=2"),
        ("1", "log.retention.bytes=1000000000"),
    ):
        name = (entity,) if entity.startswith("--") else ("--entity-name", entity)
        broker = ("--entity-type", "brokers", *name)
        tools.run(CONFIGS, "--alter", *broker, "--add-config", setting)
        until(lambda broker=broker, setting=setting: setting in tools.run(CONFIGS, "--describe", *broker))
        tools.run(CONFIGS, "--alter", *broker, "--delete-config", setting.partition("=")[0])
    everything = tools.run(
        CONFIGS, "--describe", *("--entity-type", "brokers", "--entity-name", "1", "--all")
    )
    assert "DEFAULT_CONFIG:num.network.threads" in everything


def test_logs_are_described_and_truncated(tools: Tools) -> None:
    tools.place("measured-by-tool", "0:1")
    produce(tools, "measured-by-tool", 10)
    offsets = ("--topic", "measured-by-tool", "--time")
    assert tools.run(OFFSETS, *offsets, "-1") == "measured-by-tool:0:10\n"
    assert tools.run(OFFSETS, *offsets, "earliest") == "measured-by-tool:0:0\n"
    json_line = tools.run(LOG_DIRS, "--describe", "--topic-list", "measured-by-tool").splitlines()[-1]
    sizes = {
        each["broker"]: [found["size"] for directory in each["logDirs"] for found in directory["partitions"]]
        for each in json.loads(json_line)["brokers"]
    }
    assert sizes[0] == sizes[1] != [0]
    assert sizes[2] == []
    truncated = {"topic": "measured-by-tool", "partition": 0, "offset": 4}
    file = tools.file({"version": 1, "partitions": [truncated]})
    assert "low_watermark: 4" in tools.run(DELETE_RECORDS, "--offset-json-file", file)
    assert tools.run(OFFSETS, *offsets, "-2") == "measured-by-tool:0:4\n"


def test_groups_are_reset_and_deleted(tools: Tools) -> None:
    tools.place("grouped-by-tool", "0:1,1:2")
    produce(tools, "grouped-by-tool", 10)
    group = ("--group", "tooled")
    reset = ("--reset-offsets", "--topic", "grouped-by-tool", "--shift-by")
    tools.run(GROUPS, *group, *reset[:-1], "--to-latest", "--execute")
    tools.run(GROUPS, *group, *reset, "-3", "--execute")
    assert "tooled" in tools.run(GROUPS, "--list", "--state", "empty")
    row = next(
        line.split()
        for line in tools.run(GROUPS, "--describe", *group).splitlines()
        if line.split()[1:3] == ["grouped-by-tool", "0"]
    )
    assert row[3:6] == ["7", "10", "3"]
    assert "Empty" in tools.run(GROUPS, "--describe", *group, "--state")
    assert "Successful" in tools.run(GROUPS, *group, "--delete-offsets", "--topic", "grouped-by-tool:0")
    assert "was successful" in tools.run(GROUPS, *group, "--delete")
    assert "tooled" not in tools.run(GROUPS, "--list").split()
