"""One secured cluster of both kinds of broker, from one set of settings, with Java's tools and librdkafka."""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from security.password_encoder import PasswordEncoder
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.certificates import PASSWORD, Authority
from tests.compat.secured_cluster import SecuredCluster, connections_to, write_properties
from tests.compat.test_sasl import SCRAM_MODULE, produce_and_consume
from tests.patience import until
from tests.zookeeper_client import zookeeper_client

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ADMIN_PASSWORD = "admin secret"
ENCODER_SECRET = "encoder secret"
OTTLA, KAFKA = 0, 1
OTTLA_COMMAND = str(Path(sys.executable).parent / "ottla")


def settings(ports: range, authority: Authority, number: int) -> Mapping[str, str]:
    scram = f'{SCRAM_MODULE} required username="admin" password="{ADMIN_PASSWORD}";'
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(("SASL_SSL", "SSL", "CONTROL"), ports[:3], strict=True)
        ),
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROL:SASL_SSL",
        "control.plane.listener.name": "CONTROL",
        "listener.name.control.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.control.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.pkcs12(f"broker{number}")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": str(authority.trust_store("JKS")),
        "ssl.truststore.password": PASSWORD,
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([a-z0-9]+).*$/$1/L,DEFAULT",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:alice",
        "password.encoder.secret": ENCODER_SECRET,
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }


class Mixed:
    """The cluster, and what its clients need."""

    def __init__(
        self, cluster: SecuredCluster, authority: Authority, java: Sequence[str], directory: Path
    ) -> None:
        self.cluster = cluster
        self.authority = authority
        self.java = java
        self.properties = write_properties(
            directory / "admin.properties",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM_MODULE} required username="admin" password="{ADMIN_PASSWORD}";',
                "ssl.truststore.type": "JKS",
                "ssl.truststore.location": str(authority.trust_store("JKS")),
                "ssl.truststore.password": PASSWORD,
            },
        )

    def address(self, kind: int, listener: int = 0) -> str:
        return f"127.0.0.1:{self.cluster.ports[kind][listener]}"

    def librdkafka(self, kind: int, user: str = "admin", password: str = ADMIN_PASSWORD) -> dict[str, object]:
        return {
            "bootstrap.servers": self.address(kind),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.certificate),
            "log_level": 0,
        }

    def tool(self, kind: int, main: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(*self.java, main, "--bootstrap-server", self.address(kind)),
                *("--command-config", str(self.properties), *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, kafka_java: list[str]) -> Iterator[Mixed]:
    directory = tmp_path_factory.mktemp("mixed")
    authority = Authority(directory / "authority")
    with SecuredCluster(directory, 2) as cluster:
        bootstrap = subprocess.run(
            [
                *(
                    OTTLA_COMMAND,
                    "configs",
                    "--zookeeper",
                    cluster.zookeeper,
                    "--alter",
                    "--entity-type",
                    "users",
                ),
                *("--entity-name", "admin", "--add-config", f"SCRAM-SHA-512=[password={ADMIN_PASSWORD}]"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert bootstrap.returncode == 0, bootstrap.stderr
        kafka = KafkaBroker(
            kafka_java,
            directory / "kafka",
            KAFKA,
            cluster.ports[KAFKA][0],
            cluster.zookeeper,
            settings(cluster.ports[KAFKA], authority, KAFKA),
        )
        kafka.start()
        try:
            cluster.start([settings(cluster.ports[OTTLA], authority, OTTLA)])
            found = Mixed(cluster, authority, kafka_java, directory)
            until(lambda: len(brokers(found)) == 2)
            yield found
        finally:
            kafka.stop()


def brokers(mixed: Mixed) -> list[int]:
    return list(AdminClient(mixed.librdkafka(OTTLA)).list_topics(timeout=10).brokers)


def test_the_controller_uses_its_own_listener(mixed: Mixed) -> None:
    for ports in mixed.cluster.ports:
        until(lambda port=ports[2]: connections_to(port) >= 1)


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_records_are_replicated_between_both_kinds(mixed: Mixed, kind: int) -> None:
    topic = f"mixed-{kind}"
    admin = AdminClient(mixed.librdkafka(kind))
    admin.create_topics([NewTopic(topic, 4, 2)])[topic].result(60)
    produce_and_consume(mixed.librdkafka(kind), topic)


def kafka_python(mixed: Mixed, kind: int, password: str) -> dict[str, object]:
    return {
        "bootstrap_servers": mixed.address(kind),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "admin",
        "sasl_plain_password": password,
        "ssl_cafile": str(mixed.authority.certificate),
    }


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_kafka_python(mixed: Mixed, kind: int) -> None:
    topic = f"kafka-python-{kind}"
    admin = AdminClient(mixed.librdkafka(kind))
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(60)
    producer = KafkaProducer(**kafka_python(mixed, kind, ADMIN_PASSWORD), acks="all")
    assert producer.send(topic, b"by kafka-python").get(60).offset == 0
    producer.close()
    consumer = KafkaConsumer(
        topic, **kafka_python(mixed, kind, ADMIN_PASSWORD), auto_offset_reset="earliest", group_id=None
    )
    assert next(iter(consumer)).value == b"by kafka-python"
    consumer.close()
    with pytest.raises(KafkaError):
        KafkaProducer(**kafka_python(mixed, kind, "wrong"), bootstrap_timeout_ms=20_000)


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_aiokafka(mixed: Mixed, kind: int) -> None:
    topic = f"aiokafka-{kind}"
    admin = AdminClient(mixed.librdkafka(kind))
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(60)
    settings = kafka_python(mixed, kind, ADMIN_PASSWORD)
    context = ssl.create_default_context(cafile=str(settings.pop("ssl_cafile")))

    async def main() -> None:
        async with AIOKafkaProducer(**settings, ssl_context=context, acks="all") as producer:
            assert (await producer.send_and_wait(topic, b"by aiokafka")).offset == 0
        own = {"auto_offset_reset": "earliest", "group_id": None}
        async with AIOKafkaConsumer(topic, **settings, ssl_context=context, **own) as consumer:
            assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"by aiokafka"
        refused = AIOKafkaProducer(**(settings | {"sasl_plain_password": "wrong"}), ssl_context=context)
        with pytest.raises(AioKafkaError):
            await refused.start()
        await refused.stop()

    asyncio.run(main())


@pytest.mark.needs("kcat")
@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_kcat(mixed: Mixed, kind: int) -> None:
    def kcat(password: str) -> "subprocess.CompletedProcess[bytes]":
        config = mixed.librdkafka(kind, "admin", password) | {"log_level": 0}
        servers = str(config.pop("bootstrap.servers"))
        options = [part for name, value in config.items() for part in ("-X", f"{name}={value}")]
        command = ["kcat", "-b", servers, *options, "-L", "-m", "30", "-J"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False)

    listed = kcat(ADMIN_PASSWORD)
    assert listed.returncode == 0, listed.stderr.decode()
    listing = json.loads(listed.stdout)
    assert sorted(broker["id"] for broker in listing["brokers"]) == [OTTLA, KAFKA]
    assert kcat("wrong").returncode != 0


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_a_user_made_by_javas_tool_logs_in_at_both(mixed: Mixed, kind: int) -> None:
    user = f"user{kind}"
    added = "SCRAM-SHA-512=[iterations=8192,password=p secret]"
    made = mixed.tool(
        kind, CONFIGS, "--alter", "--entity-type", "users", "--entity-name", user, "--add-config", added
    )
    assert made.returncode == 0, made.stdout + made.stderr
    for each in (OTTLA, KAFKA):
        admin = AdminClient(mixed.librdkafka(each))
        described = admin.describe_user_scram_credentials([user])[user].result(60)
        assert [info.iterations for info in described.scram_credential_infos] == [8192]
        client = AdminClient(mixed.librdkafka(each, user, "p secret"))
        assert client.list_topics(timeout=20).brokers


def test_a_certificate_names_its_owner_at_both(mixed: Mixed) -> None:
    """`alice` is a super user by her certificate's common name; `bob` may not see a topic."""
    admin = AdminClient(mixed.librdkafka(OTTLA))
    admin.create_topics([NewTopic("certified", 1, 2)])["certified"].result(60)
    for kind in (OTTLA, KAFKA):
        seen = {}
        for name in ("alice", "bob"):
            pem = str(mixed.authority.pem(name))
            config = {
                "bootstrap.servers": mixed.address(kind, 1),
                "security.protocol": "SSL",
                "ssl.ca.location": str(mixed.authority.certificate),
                "ssl.certificate.location": pem,
                "ssl.key.location": pem,
            }
            seen[name] = AdminClient(config).list_topics(timeout=20).topics
        assert "certified" in seen["alice"]
        assert not seen["bob"]


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_a_key_store_is_changed_by_javas_tool_while_the_broker_runs(
    mixed: Mixed, kind: int, tmp_path: Path
) -> None:
    host, port = mixed.address(kind).split(":")
    here, prefix = (host, int(port)), "listener.name.sasl_ssl.ssl.keystore"
    present = mixed.authority.directory / f"broker{kind}.p12"
    before, shown = present.read_bytes(), ssl.get_server_certificate(here)
    renewed = tmp_path / "renewed.p12"
    renewed.write_bytes(mixed.authority.pkcs12(f"broker{kind}").read_bytes())
    present.write_bytes(before)
    stranger = mixed.authority.pkcs12("stranger")
    client = AdminClient(mixed.librdkafka(kind))
    assert client.list_topics(timeout=20).brokers

    def point_to(store: Path) -> "subprocess.CompletedProcess[str]":
        added = f"{prefix}.location={store},{prefix}.password={PASSWORD}"
        broker = ("--entity-type", "brokers", "--entity-name", str(kind))
        return mixed.tool(kind, CONFIGS, "--alter", *broker, "--add-config", added)

    done = point_to(renewed)
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: ssl.get_server_certificate(here) != shown)
    now = ssl.get_server_certificate(here)
    refused = point_to(stranger)
    assert refused.returncode != 0
    assert "InvalidRequestException" in refused.stdout + refused.stderr
    if kind == OTTLA:  # what Kafka's listener shows behind a refusal is its own affair
        assert ssl.get_server_certificate(here) == now
    now = ssl.get_server_certificate(here)
    renewed.write_bytes(mixed.authority.pkcs12(f"broker{kind}").read_bytes())
    present.write_bytes(before)
    done = point_to(renewed)  # the same settings; the file has changed
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: ssl.get_server_certificate(here) != now)
    assert client.list_topics(timeout=20).brokers
    with zookeeper_client(mixed.cluster.zookeeper) as zookeeper:
        stored = json.loads(zookeeper.get(f"/config/brokers/{kind}")[0])["config"]
    assert PasswordEncoder(ENCODER_SECRET).decode(stored[f"{prefix}.password"]) == PASSWORD


def test_javas_tools_list_topics_at_both(mixed: Mixed) -> None:
    listed = {kind: mixed.tool(kind, TOPICS, "--list") for kind in (OTTLA, KAFKA)}
    for each in listed.values():
        assert each.returncode == 0, each.stdout + each.stderr
    assert sorted(listed[OTTLA].stdout.split()) == sorted(listed[KAFKA].stdout.split())
