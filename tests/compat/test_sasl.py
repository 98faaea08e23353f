"""SASL with foreign clients: right and wrong passwords, brokers that authenticate to each other."""

from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.compat.secured_cluster import SecuredCluster, connections_to
from tests.patience import until

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
RECORDS = 1000


def settings(ports: range) -> Mapping[str, str]:
    users = 'user_broker="b secret" user_alice="a,=\\"x"'
    plain = f'{PLAIN_MODULE} required username="broker" password="b secret" {users};'
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(("CLIENT", "BROKER", "TOKEN", "CONTROL"), ports, strict=True)
        ),
        "listener.security.protocol.map": (
            "CLIENT:SASL_PLAINTEXT,BROKER:SASL_PLAINTEXT,TOKEN:SASL_PLAINTEXT,CONTROL:SASL_PLAINTEXT"
        ),
        "control.plane.listener.name": "CONTROL",
        "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.control.plain.sasl.jaas.config": plain,
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredValidatorRequiredScope="produce";'
        ),
        "inter.broker.listener.name": "BROKER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.broker.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.broker.plain.sasl.jaas.config": plain,
        "listener.name.client.plain.sasl.jaas.config": plain,
        "listener.name.client.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("sasl"), 2) as cluster:
        cluster.start([settings(ports) for ports in cluster.ports])
        yield cluster


def client(cluster: SecuredCluster, mechanism: str, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{cluster.ports[0][0]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@cache
def admin(cluster: SecuredCluster) -> AdminClient:
    return AdminClient(client(cluster, "PLAIN", "alice", 'a,="x'))


def set_password(cluster: SecuredCluster, user: str, mechanism: int, password: str) -> None:
    info = ScramCredentialInfo(mechanism, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    for future in admin(cluster).alter_user_scram_credentials([change]).values():
        future.result(30)


def produce_and_consume(config: dict[str, object], topic: str) -> None:
    producer = Producer(config | {"acks": "all"})
    failures = []
    for number in range(RECORDS):
        producer.produce(topic, str(number), on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(60) == 0
    assert not failures
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: list[bytes] = []

    def all_read() -> bool:
        seen.extend(message.value() for message in consumer.consume(RECORDS, 1) if not message.error())
        return len(seen) >= RECORDS

    until(all_read)
    consumer.close()
    assert sorted(seen) == sorted(str(number).encode() for number in range(RECORDS))


def refusal(config: dict[str, object]) -> KafkaError:
    errors: list[KafkaError] = []
    refused = AdminClient(config | {"error_cb": errors.append})

    def has_error() -> bool:
        refused.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    until(has_error)
    return next(error for error in errors if error.code() == KafkaError._AUTHENTICATION)


def test_the_controller_uses_its_own_listener(cluster: SecuredCluster) -> None:
    for ports in cluster.ports:
        until(lambda port=ports[3]: connections_to(port) >= 1)


def test_plain(cluster: SecuredCluster) -> None:
    config = client(cluster, "PLAIN", "alice", 'a,="x')
    admin(cluster).create_topics([NewTopic("plain", 1, 2)])["plain"].result(30)
    produce_and_consume(config, "plain")


def bearer(cluster: SecuredCluster, scope: str) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{cluster.ports[0][2]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": f"principal=erin scope={scope} lifeSeconds=60",
        "log_level": 0,
    }


def test_a_bearer_token(cluster: SecuredCluster) -> None:
    admin(cluster).create_topics([NewTopic("bearer", 1, 2)])["bearer"].result(30)
    produce_and_consume(bearer(cluster, "produce"), "bearer")


def test_a_bearer_token_without_the_scope(cluster: SecuredCluster) -> None:
    assert refusal(bearer(cluster, "nothing")) is not None


@pytest.mark.parametrize(
    ("name", "mechanism", "user", "password"),
    [
        ("SCRAM-SHA-256", ScramMechanism.SCRAM_SHA_256, "bob", "simple"),
        ("SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512, "bob", "another"),
        ("SCRAM-SHA-512", ScramMechanism.SCRAM_SHA_512, "c,a=r o/l", "pass, word=ü" + "x" * 200),
    ],
)
def test_scram(cluster: SecuredCluster, name: str, mechanism: int, user: str, password: str) -> None:
    set_password(cluster, user, mechanism, password)
    config = client(cluster, name, user, password)
    # Each broker keeps its own copy of the credentials, and updates it from ZooKeeper.
    for ports in cluster.ports:
        own = config | {"bootstrap.servers": f"127.0.0.1:{ports[0]}"}
        until(lambda own=own: serves(own))
    topic = f"scram-{mechanism.name}-{len(user)}".lower()
    admin(cluster).create_topics([NewTopic(topic, 1, 2)])[topic].result(30)
    produce_and_consume(config, topic)


def serves(config: dict[str, object]) -> bool:
    try:
        return bool(AdminClient(config).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "alice", "wrong"),
        ("PLAIN", "nobody", "wrong"),
        ("SCRAM-SHA-256", "nobody", "wrong"),
        ("OAUTHBEARER", "", ""),
    ],
)
def test_a_refused_client_is_told(cluster: SecuredCluster, mechanism: str, user: str, password: str) -> None:
    config = client(cluster, mechanism, user, password)
    if mechanism == "OAUTHBEARER":
        config |= {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=x"}
        del config["sasl.username"], config["sasl.password"]
    assert refusal(config) is not None


def test_a_user_that_is_deleted_logs_in_no_more(cluster: SecuredCluster) -> None:
    set_password(cluster, "dave", ScramMechanism.SCRAM_SHA_256, "secret")
    config = client(cluster, "SCRAM-SHA-256", "dave", "secret")
    until(lambda: serves(config))
    described = admin(cluster).describe_user_scram_credentials(["dave"])["dave"].result(30)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 4096)
    ]
    deletion = UserScramCredentialDeletion("dave", ScramMechanism.SCRAM_SHA_256)
    admin(cluster).alter_user_scram_credentials([deletion])["dave"].result(30)
    refusal(config)


def test_no_secret_is_logged(cluster: SecuredCluster) -> None:
    for broker in cluster.brokers:
        assert "authentication failed" in broker.log or broker is not cluster.brokers[0]
        for secret in ("b secret", 'a,="x', "simple", "another", "pass, word"):
            assert secret not in broker.log
        assert "Traceback" not in broker.log
