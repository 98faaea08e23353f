"""TLS and SASL of the client, against one broker of each kind, on both loops."""

import base64
import json
import ssl
import uuid
from collections.abc import Iterator, Mapping, Sequence

import anyio
import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.client import (
    EARLIEST,
    READ_COMMITTED,
    AuthenticationError,
    BootstrapError,
    connect,
    oauth_bearer,
    plain,
    scram,
)
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.certificates import PASSWORD, Authority
from tests.compat.client.conftest import SETTINGS
from tests.compat.secured_cluster import SecuredCluster
from tests.compat.test_sasl import PLAIN_MODULE, SCRAM_MODULE
from tests.patience import until
from timing.clock import SystemClock

SASL, TOKEN, MUTUAL, OPEN = range(4)
SECRET = 'a,="ü secret'
SESSION_MS = 1500


def settings(ports: Sequence[int], authority: Authority) -> Mapping[str, str]:
    listeners = zip(("CLIENT", "TOKEN", "MUTUAL", "OPEN"), ports, strict=False)
    users = 'user_broker="b secret" user_alice="alice secret"'
    return SETTINGS | {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners),
        "listener.security.protocol.map": "CLIENT:SASL_SSL,TOKEN:SASL_SSL,MUTUAL:SSL,OPEN:PLAINTEXT",
        "inter.broker.listener.name": "OPEN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="broker" password="b secret" {users};'
        ),
        "listener.name.client.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.client.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="produce";'
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.pkcs12("broker")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(authority.trust_store("PKCS12")),
        "ssl.truststore.password": PASSWORD,
        "offsets.topic.replication.factor": "1",
    }


class Secured:
    """A broker of one kind."""

    def __init__(self, ports: Sequence[int], authority: Authority) -> None:
        self._ports = ports
        self.authority = authority
        self.admin = AdminClient({"bootstrap.servers": self.address(OPEN), "log_level": 0})

    def address(self, listener: int) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def topic(self) -> str:
        name = f"secured-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        return name

    def set_passwords(self) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion("bob", info, SECRET.encode())
            for future in self.admin.alter_user_scram_credentials([change]).values():
                future.result(30)

    def options(self, how: str) -> dict[str, object]:
        """Return where to connect to, and how."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        listener = {"OAUTHBEARER": TOKEN, "certificate": MUTUAL}.get(how, SASL)
        options: dict[str, object] = {"bootstrap_servers": self.address(listener), "tls": context}
        if how == "PLAIN":
            options["sasl"] = plain("alice", "alice secret")
        elif how == "OAUTHBEARER":
            options["sasl"] = oauth_bearer(token)
        elif how == "certificate":
            context.load_cert_chain(self.authority.pem("client"))
        else:
            options["sasl"] = scram("bob", SECRET, how)
        return options


def token() -> str:
    """Return an unsigned token, as Kafka accepts for development."""
    now = SystemClock().wall_ms() // 1000
    claims = {"sub": "erin", "scope": ["produce"], "iat": now, "exp": now + 600}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=["ottla", "apache"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp(f"secured-{request.param}")
    with SecuredCluster(directory, 2) as cluster:
        ports = [*cluster.ports[0], *cluster.ports[1]]
        wanted = settings(ports, authority)
        if request.param == "ottla":
            cluster.start([wanted])
            broker = None
        else:
            java = request.getfixturevalue("kafka_java")
            broker = KafkaBroker(java, directory / "kafka", 0, ports[OPEN], cluster.zookeeper, wanted)
            broker.start()
        found = Secured(ports, authority)
        try:
            until(lambda: _answers(found.admin))
            found.set_passwords()
            yield found
        finally:
            if broker is not None:
                broker.kill()


def _answers(admin: AdminClient) -> bool:
    from confluent_kafka import KafkaException

    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
def test_records_groups_and_transactions(secured: Secured, run, how: str) -> None:
    topic = secured.topic()

    async def body() -> None:
        async with connect(**secured.options(how)) as kafka:
            async with kafka.producer() as out:
                await (await out.post_batch(topic, [b"x" * 5000] * 300)).wait()
            async with kafka.producer(transactional_id=topic) as out, out.transaction() as transaction:
                await transaction.post(topic, b"last")
            found = 0
            options = {"start": EARLIEST, "heartbeat_interval": 0.1, "isolation": READ_COMMITTED}
            async with kafka.group(topic, topic, **options) as group:
                while found < 301:
                    batch = await anext(group)
                    found += len(batch)
            assert batch[-1].value == b"last"

    run(body)


def test_sessions_are_renewed_before_they_end(secured: Secured, run) -> None:
    topic = secured.topic()

    async def body() -> None:
        sent = 0
        async with (
            connect(**secured.options("SCRAM-SHA-256")) as kafka,
            kafka.producer(linger=0, delivery_timeout=40) as out,
            kafka.reader(topic, start=EARLIEST) as reader,
        ):
            with anyio.move_on_after(3 * SESSION_MS / 1000):
                while True:
                    place = await out.send(topic, b"%d" % sent)
                    assert place.offset == sent
                    sent += 1
            await out.flush()
            read: list[bytes] = []
            while len(read) < sent:
                read += (await anext(reader)).values()
            assert read[:sent] == [b"%d" % number for number in range(sent)]

    run(body)


def test_refusals_name_the_broker_and_the_reason(secured: Secured, run) -> None:
    async def body() -> None:
        for wrong in (plain("alice", "wrong"), scram("bob", "wrong"), scram("nobody", "x", "SCRAM-SHA-512")):
            options = secured.options("PLAIN") | {"sasl": wrong}
            with pytest.raises(
                AuthenticationError, match=f"{secured.address(SASL)} refuses the {wrong.mechanism}"
            ):
                async with connect(**options):
                    pass
        unknown = secured.options("PLAIN") | {"tls": ssl.create_default_context()}
        with pytest.raises(AuthenticationError, match=r"TLS handshake with .* failed"):
            async with connect(**unknown):
                pass
        with pytest.raises((AuthenticationError, BootstrapError)):
            async with connect(secured.address(SASL)):
                pass
        with pytest.raises((AuthenticationError, BootstrapError)):
            async with connect(secured.address(OPEN), tls=ssl.create_default_context()):
                pass

    run(body)
