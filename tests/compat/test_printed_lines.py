"""Commands called by Kafka's names print Kafka's lines: both tools run against one cluster, and are compared."""

import json
import re
from collections.abc import Iterator, Sequence

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.commands.main import main
from ottla.testing import Cluster
from tests.compat.test_operating_tools import Tools, produce
from tests.patience import until

MAINS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
GROUP = "printed-group"


class Both:
    """Both tools of a name."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def kafka(self, name: str, *arguments: str) -> list[str]:
        """Run Kafka's tool, and return its lines."""
        lines = []
        for line in self.tools.answers("\t".join((MAINS[name], *self._with_servers(name, arguments)))):
            if not line.startswith("|"):
                break
            lines.append(line[1:].rstrip("\n"))
        # The exception by which the program Tools stops a tool that would exit the virtual machine.
        ended = next((at for at, line in enumerate(lines) if line.startswith("Tools$Ended")), None)
        return lines if ended is None else lines[: ended - 1]

    def ottla(self, name: str, *arguments: str) -> list[str]:
        """Run our command of that name, and return its lines."""
        done = CliRunner().invoke(main, [name, *self._with_servers(name, arguments)])
        assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit), done
        return done.output.split("\n")

    def _with_servers(self, name: str, arguments: Sequence[str]) -> list[str]:
        servers = ["--bootstrap-server", self.tools.bootstrap]
        # Only the cluster tool takes its options after the action.
        return [*arguments, *servers] if name == "kafka-cluster" else [*servers, *arguments]

    def compare(self, name: str, *arguments: str, any_order: bool = False) -> list[str]:
        """Run both, require the same lines, and return them."""
        kafka, ottla = trimmed(self.kafka(name, *arguments)), trimmed(self.ottla(name, *arguments))
        if any_order:
            assert sorted(ottla) == sorted(kafka)
        else:
            assert ottla == kafka
        return ottla


def trimmed(lines: Sequence[str]) -> list[str]:
    """Drop empty lines at both ends: some of Kafka's tools do not end their last line."""
    return "\n".join(lines).strip("\n").split("\n")


@pytest.fixture(scope="module")
def both(kafka_java, tmp_path_factory) -> Iterator[Both]:
    overrides = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "log.segment.bytes": "100000000",
    }
    with Cluster.up(tmp_path_factory.mktemp("printed") / "data", brokers=3, overrides=overrides) as cluster:
        tools = Tools(kafka_java, cluster.bootstrap_servers, tmp_path_factory.mktemp("tools"))
        tools.place("printed", "0:1,1:2,2:0")
        tools.place("printed.other", "1:2")
        produce(tools, "printed", 7)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition("printed", 0, 3)], asynchronous=False)
        consumer.close()
        yield Both(tools)
        tools.close()


def test_topics(both: Both) -> None:
    both.tools.run(
        MAINS["kafka-configs"],
        *("--alter", "--topic", "printed", "--add-config", "retention.ms=7200000"),
    )
    both.compare("kafka-topics", "--describe", "--topic", "printed")
    both.compare("kafka-topics", "--describe", "--exclude-internal", any_order=True)
    both.compare("kafka-topics", "--list", "--exclude-internal")
    both.compare("kafka-topics", "--list", "--topic", "nothing-is-called-so")
    both.compare("kafka-topics", "--describe", "--at-min-isr-partitions", "--topic", "printed")
    both.compare("kafka-topics", "--describe", "--topics-with-overrides", "--topic", "printed")
    created = [
        both.kafka("kafka-topics", "--create", "--topic", "made_by.one"),
        both.ottla("kafka-topics", "--create", "--topic", "made_by.two"),
    ]
    assert [line.replace("two", "one") for line in trimmed(created[1])] == trimmed(created[0])
    for name in ("made_by.one", "made_by.two"):
        run = both.kafka if name.endswith("one") else both.ottla
        until(lambda run=run, name=name: name in "".join(run("kafka-topics", "--describe", "--topic", name)))
        assert trimmed(run("kafka-topics", "--alter", "--topic", name, "--partitions", "2")) == [""]
        assert trimmed(run("kafka-topics", "--delete", "--topic", name)) == [""]


def test_offsets(both: Both) -> None:
    assert both.compare("kafka-get-offsets", "--topic", "printed")[0] == "printed:0:7"
    both.compare("kafka-get-offsets", "--topic-partitions", "printed.*:0", "--time", "earliest")
    both.compare("kafka-get-offsets", "--topic", "printed", "--time", "9999999999999")
    both.compare("kafka-get-offsets", "--topic", "printed", "--time", "max-timestamp")


def test_deleted_records(both: Both) -> None:
    file = both.tools.file({"version": 1, "partitions": [{"topic": "printed", "partition": 0, "offset": 2}]})
    lines = both.compare("kafka-delete-records", "--offset-json-file", file)
    assert lines[-1] == "partition: printed-0\tlow_watermark: 2"


def test_groups(both: Both) -> None:
    described = ("--describe", "--group", GROUP)
    assert both.compare("kafka-consumer-groups", *described)[0].startswith("Consumer group")
    both.compare("kafka-consumer-groups", *described, "--members", "--verbose")
    both.compare("kafka-consumer-groups", *described, "--state")
    both.compare("kafka-consumer-groups", "--list")
    both.compare("kafka-consumer-groups", "--list", "--state")
    both.compare("kafka-consumer-groups", "--list", "--state", "--type")
    both.compare("kafka-consumer-groups", "--describe", "--group", "nobody", "--timeout", "5000")
    members = [
        Consumer(
            {
                "bootstrap.servers": both.tools.bootstrap,
                "group.id": "printed-live",
                "client.id": f"client-{number}",
                "group.instance.id": f"instance-{number}",
            }
        )
        for number in range(2)
    ]
    for member in members:
        member.subscribe(["printed"])

    def are_assigned() -> bool:
        for member in members:
            member.poll(0.1)
        return sorted(len(member.assignment()) for member in members) == [1, 2]

    until(are_assigned)
    live = ("--describe", "--group", "printed-live")
    both.compare("kafka-consumer-groups", *live, any_order=True)
    both.compare("kafka-consumer-groups", *live, "--members", "--verbose", any_order=True)
    both.compare("kafka-consumer-groups", *live, "--state")
    for member in members:
        member.close()


def test_groups_are_reset_and_deleted(both: Both) -> None:
    def reset(run) -> list[str]:
        options = ("--reset-offsets", "--group", GROUP, "--topic", "printed:0", "--to-offset", "5")
        return [line for line in trimmed(run("kafka-consumer-groups", *options, "--execute")) if line]

    # Kafka's tool of 3.9 writes no line ends between its rows.
    assert "".join(reset(both.ottla)) == "".join(reset(both.kafka))
    for run, name in ((both.kafka, "made-1"), (both.ottla, "made-2")):
        consumer = Consumer({"bootstrap.servers": both.tools.bootstrap, "group.id": name})
        consumer.commit(offsets=[TopicPartition("printed", 0, 3)], asynchronous=False)
        consumer.close()
        lines = trimmed(run("kafka-consumer-groups", "--delete", "--group", name))
        assert lines == [f"Deletion of requested consumer groups ('{name}') was successful."]


def test_configurations(both: Both) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "printed.other")
    for command in (
        (*topic, "--alter", "--add-config", "retention.ms=3600000,cleanup.policy=[compact,delete]"),
        (*topic, "--describe"),
        (*topic, "--describe", "--all"),
        (
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
            "--alter",
            "--add-config",
            "log.cleaner.threads=2",
        ),
        ("--entity-type", "brokers", "--entity-name", "1", "--describe"),
        ("--entity-type", "brokers", "--entity-default", "--describe"),
        ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.cleaner.threads=2"),
    ):
        both.compare("kafka-configs", *command)
    for run, name in ((both.kafka, "retention.ms"), (both.ottla, "cleanup.policy")):
        lines = trimmed(run("kafka-configs", *topic, "--alter", "--delete-config", name))
        assert lines == ["Completed updating config for topic printed.other."]


def test_quotas(both: Both) -> None:
    pair = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients")
    cases: list[tuple[tuple[str, ...], str]] = [
        (("--entity-type", "users", "--entity-name", "ann"), "producer_byte_rate=1048576"),
        (("--entity-type", "users", "--entity-default"), "consumer_byte_rate=10485760"),
        (("--entity-type", "clients", "--entity-name", "app"), "request_percentage=12.5"),
        (("--entity-type", "clients", "--entity-default"), "controller_mutation_rate=0.25"),
        ((*pair, "--entity-name", "app"), "producer_byte_rate=2048,consumer_byte_rate=4096"),
        ((*pair, "--entity-default"), "request_percentage=0.0001"),
        (("--entity-type", "ips", "--entity-name", "10.0.0.1"), "connection_creation_rate=5"),
        (("--entity-type", "ips", "--entity-default"), "connection_creation_rate=50"),
        (("--user", "bob", "--client-defaults"), "producer_byte_rate=5"),
        (("--user-defaults", "--client", "app"), "producer_byte_rate=6"),
    ]
    for run in (both.ottla, both.kafka):
        for entity, added in cases:
            both_lines = [
                trimmed(each("kafka-configs", *entity, "--alter", "--add-config", added))
                for each in (both.kafka, both.ottla)
            ]
            assert both_lines[0] == both_lines[1]
            both.compare("kafka-configs", *entity, "--describe")
        for kinds in (("users",), ("clients",), ("ips",), ("users", "clients")):
            types = [part for kind in kinds for part in ("--entity-type", kind)]
            shown = both.compare("kafka-configs", *types, "--describe", any_order=True)
            assert len(shown) >= 2
        for entity, added in cases:
            names = ",".join(each.partition("=")[0] for each in added.split(","))
            run("kafka-configs", *entity, "--alter", "--delete-config", names)
            assert both.compare("kafka-configs", *entity, "--describe") == [""]


def test_access_rules(both: Both) -> None:
    rule = ("--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "printed")
    both.compare("kafka-acls", *rule)
    more = ("--add", "--deny-principal", "User:ben", "--operation", "Write", "--cluster")
    assert trimmed(both.ottla("kafka-acls", *more, "--force")) != [""]
    both.compare("kafka-acls", "--list", any_order=True)
    both.compare("kafka-acls", "--list", "--principal", "User:ann", any_order=True)
    both.compare("kafka-acls", "--list", "--topic", "printed")
    removed = ("--remove", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "printed")
    both.compare("kafka-acls", *removed, "--force")


def test_elections(both: Both) -> None:
    both.compare(
        "kafka-leader-election", *("--election-type", "preferred", "--topic", "printed", "--partition", "0")
    )
    refused = ("--election-type", "preferred", "--topic", "nowhere", "--partition", "0")
    kafka, ottla = (
        both.kafka("kafka-leader-election", *refused),
        both.ottla("kafka-leader-election", *refused),
    )
    assert ottla[0].partition("Exception")[0] == kafka[0].partition("Exception")[0]


def test_log_directories(both: Both) -> None:
    asked = ("--describe", "--topic-list", "printed", "--broker-list", "0,2")
    kafka, ottla = (
        trimmed(both.kafka("kafka-log-dirs", *asked)),
        trimmed(both.ottla("kafka-log-dirs", *asked)),
    )
    assert ottla[:2] == kafka[:2]

    def ordered(line: str) -> object:
        read = json.loads(line)
        for broker in read["brokers"]:
            for directory in broker["logDirs"]:
                directory["partitions"].sort(key=lambda each: each["partition"])
        return read

    assert ordered(ottla[2]) == ordered(kafka[2])
    both.compare("kafka-log-dirs", "--describe", "--broker-list", "9")


def test_versions_of_apis(both: Both) -> None:
    kafka, ottla = both.kafka("kafka-broker-api-versions"), both.ottla("kafka-broker-api-versions")
    blocks = [sorted(re.split(r"\n(?=\S+ \(id)", "\n".join(trimmed(lines)))) for lines in (kafka, ottla)]
    assert blocks[1] == blocks[0]


def test_cluster_id(both: Both) -> None:
    assert both.compare("kafka-cluster", "cluster-id")[0].startswith("Cluster ID: ")


def test_transactions(both: Both) -> None:
    producer = Producer({"bootstrap.servers": both.tools.bootstrap, "transactional.id": "printed-id"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("printed", b"open", partition=1)
    producer.flush()
    both.compare("kafka-transactions", "list")
    both.compare("kafka-transactions", "describe-producers", "--topic", "printed", "--partition", "1")
    producer.abort_transaction()
    described = ("kafka-transactions", "describe", "--transactional-id", "printed-id")
    kafka, ottla = (
        [line.split("\t") for line in trimmed(run(*described))] for run in (both.kafka, both.ottla)
    )
    duration = kafka[0].index("TransactionDurationMs")
    assert kafka[1].pop(duration).strip().isdigit() == ottla[1].pop(duration).strip().isdigit()
    assert ottla == kafka


def test_reassignments(both: Both) -> None:
    def file(replicas: Sequence[int]) -> str:
        order = {"topic": "printed", "partition": 0, "replicas": list(replicas)}
        return both.tools.file({"version": 1, "partitions": [order]})

    name = "kafka-reassign-partitions"
    began = []
    for run, replicas in ((both.kafka, [0, 1, 2]), (both.ottla, [0, 1, 2])):
        moved = ("--reassignment-json-file", file(replicas))
        began.append(trimmed(run(name, *moved, "--execute", "--throttle", "100000000")))
        until(lambda run=run, moved=moved: "is completed" in "".join(run(name, *moved, "--verify")))
        assert both.compare(name, *moved, "--verify")
        back = ("--reassignment-json-file", file([0, 1]))
        run(name, *back, "--execute")
        until(lambda run=run, back=back: "is completed" in "".join(run(name, *back, "--verify")))
    assert began[1] == began[0]
    both.compare(name, "--list")
    cancelled = (name, "--reassignment-json-file", file([0, 1]), "--cancel")
    # Kafka's tool of 3.9 forgets one line end.
    assert "".join(both.ottla(*cancelled)) == "".join(both.kafka(*cancelled))
    elsewhere = ("--reassignment-json-file", file([2, 1]))
    both.compare(name, *elsewhere, "--verify", "--preserve-throttles")
