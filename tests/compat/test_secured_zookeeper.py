"""Both kinds of broker on a ZooKeeper that demands TLS and a login, and owning their znodes, from the same settings."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from cluster.zookeeper.kazoo_connection import blocking_client
from host.java_runtime import find_java
from ottla.testing.ports import free_port_block
from pipeline.spark_submit import spark_home
from security.zookeeper_access import OPEN, zookeeper_access
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.certificates import PASSWORD, Authority
from tests.compat.secured_cluster import BrokerProcess, write_properties
from tests.contract.conftest import RealZooKeeper, free_port
from tests.patience import until
from tests.zookeeper_client import zookeeper_client

LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="its secret";'
OTTLA, KAFKA = 0, 1


class Cluster:
    """ZooKeeper, one broker of Ottla and one of Apache Kafka."""

    def __init__(self, directory: Path, java: Sequence[str]) -> None:
        self.authority = Authority(directory / "authority")
        secure_port = free_port()
        (directory / "server.jaas").write_text(
            'Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_kafka="its secret";\n};\n'
        )
        (directory / "client.jaas").write_text(f"Client {{\n  {LOGIN}\n}};\n")
        stores = {
            "ssl.keyStore.location": self.authority.pkcs12("zookeeper"),
            "ssl.keyStore.password": PASSWORD,
            "ssl.trustStore.location": self.authority.trust_store("JKS"),
            "ssl.trustStore.password": PASSWORD,
        }
        (directory / "zookeeper").mkdir()
        self.server = RealZooKeeper(
            directory / "zookeeper",
            find_java().program,
            spark_home() / "jars",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"secureClientPort={secure_port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=none\n"
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
            + "".join(f"{name}={value}\n" for name, value in stores.items()),
            (f"-Djava.security.auth.login.config={directory}/server.jaas",),
        )
        self.server.start()
        self.zookeeper = f"127.0.0.1:{secure_port}"
        self.settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.protocol": "TLSv1.3",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": str(self.authority.trust_store("JKS")),
            "zookeeper.ssl.truststore.password": PASSWORD,
            "zookeeper.set.acl": "true",
        }
        first = free_port_block(2)
        self.ports = range(first, first + 2)
        own = {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[OTTLA]}",
            "log.dirs": str(directory / "ottla-logs"),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": "60000",
            "offsets.topic.replication.factor": "1",
            "ottla.zookeeper.jaas.config": LOGIN,
        }
        self.ottla = BrokerProcess(write_properties(directory / "ottla.properties", own | self.settings))
        login = f"-Djava.security.auth.login.config={directory}/client.jaas"
        self.kafka = KafkaBroker(
            [java[0], login, *java[1:]],
            directory / "kafka",
            KAFKA,
            self.ports[KAFKA],
            self.zookeeper,
            self.settings,
        )

    def client(self) -> AbstractContextManager[KazooClient]:
        """A client without a login, on the plain port."""
        return zookeeper_client(blocking_client(self.server.hosts, 6.0, OPEN))

    def owner(self) -> AbstractContextManager[KazooClient]:
        """A client with the brokers' login."""
        settings = self.settings | {"ottla.zookeeper.jaas.config": LOGIN}
        return zookeeper_client(blocking_client(self.zookeeper, 6.0, zookeeper_access(settings.get)))

    def stop(self) -> None:
        self.ottla.stop()
        self.kafka.stop()
        self.server.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_java: list[str]) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("secured-zookeeper"), kafka_java)
    try:
        until(made.ottla.serves)
        made.kafka.start()
        with made.owner() as owner:
            until(lambda: owner.exists(f"/brokers/ids/{KAFKA}") is not None)
        yield made
    finally:
        made.stop()


def acls(client: KazooClient, path: str) -> list[tuple[str, str, int]]:
    return sorted((each.id.scheme, each.id.id, each.perms) for each in client.get_acls(path)[0])


def test_both_kinds_protect_znodes_alike_and_serve_each_other(cluster: Cluster) -> None:
    admins = [AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) for port in cluster.ports]
    for kind, admin in enumerate(admins):
        admin.create_topics([NewTopic(f"made-by-{kind}", 1, 2)])[f"made-by-{kind}"].result(60)
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{cluster.ports[kind]}", "acks": "all"})
        answers: list[object] = []
        producer.produce(
            f"made-by-{kind}", b"x", on_delivery=lambda error, _, into=answers: into.append(error)
        )
        assert producer.flush(60) == 0
        assert answers == [None]
    readable = [("sasl", "kafka", 31), ("world", "anyone", 1)]
    with cluster.owner() as client:
        for path in (
            *(
                "/brokers/ids/0",
                "/brokers/ids/1",
                "/brokers/topics/made-by-0",
                "/brokers/topics/made-by-1",
            ),
            *("/brokers/topics/made-by-0/partitions/0/state", "/config/topics/made-by-1", "/controller"),
            *("/controller_epoch", "/cluster/id", "/admin/delete_topics", "/isr_change_notification"),
        ):
            assert acls(client, path) == readable, path
        for path in ("/config/users", "/config/brokers"):
            assert acls(client, path) == [("sasl", "kafka", 31)], path
        assert acls(client, "/consumers") == [("world", "anyone", 31)]


def test_a_killed_brokers_session_is_closed_at_once(cluster: Cluster) -> None:
    with cluster.client() as client:
        children = Path(f"/proc/{cluster.ottla.process.pid}/task/{cluster.ottla.process.pid}/children")
        (broker,) = map(int, children.read_text().split())
        os.kill(broker, signal.SIGKILL)
        cluster.ottla.process.wait(20)
        assert client.exists("/brokers/ids/0") is None
        assert "is closed" in cluster.ottla.log
