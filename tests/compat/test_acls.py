"""Access rules, quotas and delegation tokens, with foreign clients and tools, on a cluster with logins."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.java_program import JavaProgram
from tests.compat.secured_cluster import SecuredCluster, write_properties
from tests.patience import until
from timing.clock import SystemClock

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ACLS = "kafka.admin.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
USERS = ("broker", "admin", "alice", "bob")
RATE = 2_000_000
RECORD = bytes(10_000)


def settings(ports: range) -> Mapping[str, str]:
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    jaas = f'{PLAIN_MODULE} required username="broker" password="broker-secret" {users};'
    return {
        "listeners": f"CLIENT://127.0.0.1:{ports[0]},BROKER://127.0.0.1:{ports[1]}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,BROKER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.broker.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.broker.plain.sasl.jaas.config": jaas,
        "listener.name.client.plain.sasl.jaas.config": jaas,
        "listener.name.client.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:admin",
        "delegation.token.secret.key": "signed with this",
        "default.replication.factor": "2",
    }


class Site:
    """The cluster, and what its users do."""

    def __init__(self, cluster: SecuredCluster, tools: JavaProgram) -> None:
        self.cluster = cluster
        self.bootstrap = ",".join(f"127.0.0.1:{ports[0]}" for ports in cluster.ports)
        self._tools = tools

    def client(self, user: str, **rest: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            "log_level": 0,
        } | rest

    def properties(self, user: str) -> str:
        """Write the client configuration that Java's tools and ours log in with."""
        jaas = f'{PLAIN_MODULE} required username="{user}" password="{user}-secret";'
        return str(
            write_properties(
                self.cluster.directory / f"{user}.properties",
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": jaas,
                },
            )
        )

    def java(self, tool: str, *arguments: str, user: str = "admin") -> str:
        """Run one of Kafka's tools, and return its output."""
        line = (
            tool,
            "--bootstrap-server",
            self.bootstrap,
            "--command-config",
            self.properties(user),
            *arguments,
        )
        printed = []
        for answer in self._tools.answers("\t".join(line)):
            if not answer.startswith("|"):
                assert int(answer) == 0, (line, printed)
                break
            printed.append(answer[1:])
        return "".join(printed)

    def ottla(self, command: str, *arguments: str, config: str, expect: int = 0) -> str:
        """Run one of our commands, and return its output."""
        line = [sys.executable, "-m", "ottla", command, "--bootstrap-server", self.bootstrap]
        done = subprocess.run(
            [*line, "--command-config", config, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == expect, done.stderr
        return done.stdout if expect == 0 else done.stderr

    def create(self, topic: str) -> None:
        admin = AdminClient(self.client("admin"))
        admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(30)

    def produced(self, user: str, topic: str) -> int:
        """Produce one record, and return the error code."""
        producer = Producer(self.client(user, **{"message.timeout.ms": 10_000}))
        errors: list[KafkaError | None] = []
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
        (error,) = errors
        return 0 if error is None else int(error.code())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, kafka_java) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("acls")
    with SecuredCluster(directory, 2) as cluster:
        cluster.start([settings(ports) for ports in cluster.ports])
        tools = JavaProgram(kafka_java, "Tools.java", log=directory / "tools.log")
        yield Site(cluster, tools)
        tools.close()


def test_a_producer_needs_what_kafkas_tool_gives_it(site: Site) -> None:
    site.create("orders")
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert site.produced("alice", "orders") == denied
    site.java(ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    until(lambda: site.produced("alice", "orders") == 0)
    assert site.produced("bob", "orders") == denied
    assert "orders" not in AdminClient(site.client("bob")).list_topics(timeout=30).topics
    assert "orders" in AdminClient(site.client("alice")).list_topics(timeout=30).topics
    listed = site.java(ACLS, "--list", "--topic", "orders")
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
    site.java(ACLS, "--remove", "--topic", "orders", "--force")
    until(lambda: site.produced("alice", "orders") == denied)


def test_a_consumer_that_loses_its_rule_is_refused_at_its_next_fetch(site: Site) -> None:
    site.create("letters")
    admin = site.properties("admin")
    consumer = Consumer(site.client("alice", **{"group.id": "readers", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["letters"])
    rule = ("--allow-principal", "User:alice", "--consumer", "--topic", "letters", "--group", "readers")
    shown = json.loads(site.ottla("acls", "--add", *rule, "--json", config=admin))
    assert {(each["resource_type"], each["operation"]) for each in shown} == {
        ("Topic", "Read"),
        ("Topic", "Describe"),
        ("Group", "Read"),
    }
    assert site.produced("admin", "letters") == 0
    until(lambda: has_record(consumer), 60)
    site.ottla("acls", "--remove", "--topic", "letters", "--force", config=admin)
    until(lambda: polled(consumer) == KafkaError.TOPIC_AUTHORIZATION_FAILED, 60)
    consumer.close()


def has_record(consumer: Consumer) -> bool:
    message = consumer.poll(0.2)
    return message is not None and message.error() is None


def polled(consumer: Consumer) -> int | None:
    message = consumer.poll(0.2)
    return None if message is None or message.error() is None else int(message.error().code())


def test_prefixes_denials_and_lists(site: Site) -> None:
    for name in ("app-1", "app-2"):
        site.create(name)
    admin = site.properties("admin")
    everything = ("--operation", "All", "--topic", "app-", "--resource-pattern-type", "prefixed")
    site.ottla("acls", "--add", "--allow-principal", "User:bob", *everything, config=admin)
    site.ottla(
        "acls",
        "--add",
        "--deny-principal",
        "User:bob",
        "--operation",
        "Write",
        "--topic",
        "app-2",
        config=admin,
    )
    until(lambda: site.produced("bob", "app-1") == 0)
    until(lambda: site.produced("bob", "app-2") == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    found = json.loads(
        site.ottla(
            "acls", "--list", "--topic", "app-2", "--resource-pattern-type", "match", "--json", config=admin
        )
    )
    assert {(each["name"], each["permission"]) for each in found} == {("app-", "Allow"), ("app-2", "Deny")}
    client = AdminClient(site.client("bob"))
    with pytest.raises(KafkaException) as refused:
        client.create_topics([NewTopic("other", 1, 2)])["other"].result(30)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "CLUSTER_AUTHORIZATION_FAILED" in site.ottla(
        "acls", "--list", config=site.properties("bob"), expect=1
    )


def test_a_quota_holds_within_a_fifth(site: Site) -> None:
    """The windows first allow a burst of ten seconds' worth, then less: the average is the quota."""
    site.create("slow")
    site.java(ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "slow")
    named = ("--entity-type", "users", "--entity-name", "alice")
    site.java(CONFIGS, "--alter", "--add-config", f"producer_byte_rate={RATE}", *named)
    described = site.java(CONFIGS, "--describe", *named)
    assert f"producer_byte_rate={float(RATE)}" in described
    producer = Producer(
        site.client(
            "alice",
            **{"queue.buffering.max.messages": 500, "max.in.flight": 1, "message.max.bytes": 1_000_000},
        )
    )
    clock, sent = SystemClock(), [0]

    def delivered(error: KafkaError | None, _: object) -> None:
        sent[0] += error is None

    def produce_for(seconds: float) -> None:
        end = clock.monotonic() + seconds
        while clock.monotonic() < end:
            try:
                producer.produce("slow", RECORD, on_delivery=delivered)
            except BufferError:
                producer.poll(0.05)

    until(lambda: site.produced("alice", "slow") == 0)
    began = clock.monotonic()
    produce_for(40)
    rate = sent[0] * len(RECORD) / (clock.monotonic() - began)
    assert 0.8 * RATE < rate < 1.2 * RATE
    site.java(CONFIGS, "--alter", "--delete-config", "producer_byte_rate", *named)
    assert producer.flush(60) == 0


def test_a_token_logs_in_as_its_owner(site: Site, tmp_path: Path) -> None:
    site.create("by-token")
    site.java(
        ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "by-token"
    )
    made = site.java(TOKENS, "--create", "--max-life-time-period", "-1", user="alice")
    assert "TOKENID" in made
    (token,) = json.loads(
        site.ottla("delegation-tokens", "--describe", "--json", config=site.properties("alice"))
    )
    assert token["owner"] == "User:alice"
    jaas = (
        f'{SCRAM_MODULE} required username="{token["token_id"]}" password="{token["hmac"]}" tokenauth="true";'
    )
    config = write_properties(
        tmp_path / "token.properties",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
        },
    )
    until(lambda: "by-token" in site.ottla("topics", "--list", config=str(config)))
    assert "app-1" not in site.ottla("topics", "--list", config=str(config))
    refused = site.ottla("delegation-tokens", "--describe", config=str(config), expect=1)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"])
    site.java(TOKENS, *expire, user="alice")
    assert (
        json.loads(site.ottla("delegation-tokens", "--describe", "--json", config=site.properties("alice")))
        == []
    )
