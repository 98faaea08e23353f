"""TLS with librdkafka: every form of key store, client certificates, brokers that speak TLS to each other."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.certificates import PASSWORD, Authority, run
from tests.compat.secured_cluster import SecuredCluster, connections_to
from tests.compat.test_sasl import PLAIN_MODULE, produce_and_consume
from tests.patience import until


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(ports: range, authority: Authority, number: int) -> Mapping[str, str]:
    """Return the settings of a broker: the first has a JKS key store, the second PKCS12 under a wrong name."""
    store = authority.jks(f"broker{number}") if number == 0 else authority.pkcs12(f"broker{number}")
    users = 'user_broker="b secret" user_alice="a secret"'
    plain = f'{PLAIN_MODULE} required username="broker" password="b secret" {users};'
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(("ONEWAY", "MUTUAL", "BROKER", "CONTROL"), ports, strict=True)
        ),
        "listener.security.protocol.map": "ONEWAY:SSL,MUTUAL:SSL,BROKER:SASL_SSL,CONTROL:SSL",
        "control.plane.listener.name": "CONTROL",
        "listener.name.control.ssl.client.auth": "required",
        "inter.broker.listener.name": "BROKER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.broker.plain.sasl.jaas.config": plain,
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "JKS" if number == 0 else "PKCS12",
        "ssl.truststore.location": str(authority.trust_store("JKS" if number == 0 else "PKCS12")),
        "ssl.truststore.password": PASSWORD,
        "listener.name.mutual.ssl.client.auth": "required",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("tls"), 2) as cluster:
        cluster.start([settings(ports, authority, number) for number, ports in enumerate(cluster.ports)])
        yield cluster


def client(cluster: SecuredCluster, authority: Authority, listener: int) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{cluster.ports[0][listener]}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "log_level": 0,
    }


def create(config: dict[str, object], topic: str) -> None:
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(30)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_one_way(cluster: SecuredCluster, authority: Authority, version: str) -> None:
    port = cluster.ports[0][0]
    seen = run(
        *("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", str(authority.certificate)),
        *("-verify_return_error", f"-{version.lower().replace('v', '').replace('.', '_')}"),
    )
    assert f"New, {version}".encode() in seen or version.encode() in seen


def test_the_controller_uses_its_own_listener(cluster: SecuredCluster) -> None:
    for ports in cluster.ports:
        until(lambda port=ports[3]: connections_to(port) >= 1)


def test_records_over_tls(cluster: SecuredCluster, authority: Authority) -> None:
    config = client(cluster, authority, 0)
    create(config, "one-way")
    produce_and_consume(config, "one-way")


def test_a_client_certificate(cluster: SecuredCluster, authority: Authority) -> None:
    pem = str(authority.pem("alice"))
    config = client(cluster, authority, 1) | {"ssl.certificate.location": pem, "ssl.key.location": pem}
    create(config, "mutual")
    produce_and_consume(config, "mutual")


def test_no_client_certificate(cluster: SecuredCluster, authority: Authority) -> None:
    errors: list[KafkaError] = []
    refused = AdminClient(client(cluster, authority, 1) | {"error_cb": errors.append})

    def is_refused() -> bool:
        refused.poll(0.1)
        return "peer_did_not_return_a_certificate" in cluster.brokers[0].log.lower() or (
            "no certificate was shown" in cluster.brokers[0].log
        )

    until(is_refused)


def test_a_stranger_is_not_trusted(cluster: SecuredCluster, tmp_path: Path) -> None:
    errors: list[KafkaError] = []
    other = Authority(tmp_path / "other")
    refused = AdminClient(client(cluster, other, 0) | {"error_cb": errors.append})

    def is_refused() -> bool:
        refused.poll(0.1)
        return any(error.code() == KafkaError._SSL for error in errors)

    until(is_refused)


def test_large_records(cluster: SecuredCluster, authority: Authority) -> None:
    """Responses of many megabytes, from files, arrive whole and in order."""
    from confluent_kafka import Consumer, Producer

    config = client(cluster, authority, 0)
    create(config, "large")
    producer = Producer(config | {"acks": "all", "linger.ms": 50})
    values = [bytes([number % 251]) * 900_000 for number in range(30)]
    for value in values:
        producer.produce("large", value)
    assert producer.flush(60) == 0
    consumer = Consumer(config | {"group.id": "large", "auto.offset.reset": "earliest"})
    consumer.subscribe(["large"])
    seen: list[bytes] = []

    def all_read() -> bool:
        seen.extend(message.value() for message in consumer.consume(10, 1) if not message.error())
        return len(seen) >= len(values)

    until(all_read)
    consumer.close()
    assert seen == values


def test_no_secret_is_logged(cluster: SecuredCluster) -> None:
    for broker in cluster.brokers:
        for secret in (PASSWORD, "b secret", "PRIVATE KEY"):
            assert secret not in broker.log
        assert "Traceback" not in broker.log
