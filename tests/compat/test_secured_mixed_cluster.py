"""One secured cluster of both kinds of broker, from one set of settings, with Java's tools and librdkafka."""

import asyncio
import base64
import json
import random
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from security.password_encoder import PasswordEncoder
from tests.compat.apache_kafka import KafkaBroker
from tests.compat.certificates import PASSWORD, Authority
from tests.compat.secured_cluster import SecuredCluster, connections_to, write_properties
from tests.compat.secured_peer import SecuredPeer
from tests.compat.test_sasl import SCRAM_MODULE, produce_and_consume
from tests.hostile_requests import cases
from tests.patience import until
from tests.zookeeper_client import zookeeper_client
from timing.clock import SystemClock
from wire.apis import API_TABLE, Api, ApiKey
from wire.errors import Error
from wire.frames import decode_response
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.create_delegation_token import CreateDelegationTokenRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from wire.schema import Struct

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ADMIN_PASSWORD = "admin secret"
ENCODER_SECRET = "encoder secret"
OTTLA, KAFKA = 0, 1
CHANGES = 150
RATE = 200_000
RECORD = bytes(5_000)
BURST_BYTES = 11 * RATE
"""What the windows allow at once after silence, and a little more."""
MEASURED_BYTES = 8 * RATE
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
        "delegation.token.secret.key": "token secret",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }


class Mixed:
    """The cluster, and what its clients need."""

    def __init__(
        self,
        cluster: SecuredCluster,
        kafka: KafkaBroker,
        authority: Authority,
        java: Sequence[str],
        directory: Path,
    ) -> None:
        self.cluster = cluster
        self.kafka = kafka
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

    def peer(self, kind: int) -> SecuredPeer:
        return SecuredPeer(self.address(kind), self.authority.certificate, "admin", ADMIN_PASSWORD)

    def make_user(self, name: str) -> None:
        """Make a user, whose password is its name, and wait until it can log in at both."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, info, name.encode())
        admin = AdminClient(self.librdkafka(self.controller()))
        admin.alter_user_scram_credentials([change])[name].result(60)
        for kind in (OTTLA, KAFKA):
            until(lambda kind=kind: self.logs_in(kind, name, name))

    def logs_in(self, kind: int, user: str, password: str, *, by_token: bool = False) -> bool:
        where = self.address(kind), self.authority.certificate
        try:
            with SecuredPeer(*where, user, password, by_token=by_token) as peer:
                return bool(peer.ask(ApiVersionsRequest(), 0).api_keys)
        except (OSError, AssertionError):
            return False

    def controller(self) -> int:
        return int(AdminClient(self.librdkafka(OTTLA)).list_topics(timeout=20).controller_id)

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        admin = AdminClient(self.librdkafka(OTTLA))
        admin.create_topics([NewTopic(topic, partitions, 2, config=settings)])[topic].result(60)

    def produced(self, kind: int, user: str, topic: str) -> int:
        """Produce a record as a user, and return the error's code."""
        producer = Producer(self.librdkafka(kind, user, user) | {"message.timeout.ms": 20_000})
        errors: list[KafkaError | None] = []
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
        (error,) = errors
        return 0 if error is None else int(error.code())

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
            found = Mixed(cluster, kafka, authority, kafka_java, directory)
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
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**kafka_python(mixed, kind, "wrong"), bootstrap_timeout_ms=5_000)


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
    def kcat(password: str, wait_s: int = 30) -> "subprocess.CompletedProcess[bytes]":
        config = mixed.librdkafka(kind, "admin", password) | {"log_level": 0}
        servers = str(config.pop("bootstrap.servers"))
        options = [part for name, value in config.items() for part in ("-X", f"{name}={value}")]
        command = ["kcat", "-b", servers, *options, "-L", "-m", str(wait_s), "-J"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False)

    listed = kcat(ADMIN_PASSWORD)
    assert listed.returncode == 0, listed.stderr.decode()
    listing = json.loads(listed.stdout)
    assert sorted(broker["id"] for broker in listing["brokers"]) == [OTTLA, KAFKA]
    assert kcat("wrong", 3).returncode != 0


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
    """`alice` is a super user by her certificate's common name; `bob` is not allowed to see a topic."""
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
    if kind == OTTLA:  # what Kafka's listener shows after a refusal is not tested
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


TOPIC, LITERAL, WRITE, ALLOW, ANY = 2, 3, 4, 3, 1


def allow(peer: SecuredPeer, user: str, topic: str) -> None:
    """Allow a user to write to a topic."""
    rule = AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=WRITE,
        permission_type=ALLOW,
    )
    (result,) = peer.ask(CreateAclsRequest(creations=[rule]), 3).results
    assert result.error_code == 0, result


def take_back(peer: SecuredPeer, user: str, topic: str) -> None:
    """Remove a user's only rule for a topic."""
    wanted = DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=LITERAL,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    (result,) = peer.ask(DeleteAclsRequest(filters=[wanted]), 3).filter_results
    assert (result.error_code, len(result.matching_acls)) == (0, 1), result


def allowed(peer: SecuredPeer, topic: str) -> set[str]:
    wanted = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return {rule.principal for resource in peer.ask(wanted, 3).resources for rule in resource.acls}


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_rules_made_at_one_kind_hold_at_the_other(mixed: Mixed, kind: int) -> None:
    user, topic, denied = f"ruled{kind}", f"ruled-{kind}", KafkaError.TOPIC_AUTHORIZATION_FAILED
    mixed.make_user(user)
    mixed.create(topic)
    other = 1 - kind
    with mixed.peer(kind) as peer:
        assert mixed.produced(other, user, topic) == denied
        allow(peer, user, topic)
        until(lambda: mixed.produced(other, user, topic) == 0)
        take_back(peer, user, topic)
        until(lambda: mixed.produced(other, user, topic) == denied)


def test_changes_of_one_resource_through_both_kinds_at_once(mixed: Mixed) -> None:
    """Each change reads the node, changes it and writes it back: no change of either writer is lost."""
    topic, numbers = "contended", range(CHANGES)
    with mixed.peer(OTTLA) as ours, mixed.peer(KAFKA) as theirs, ThreadPoolExecutor(2) as threads:
        peers = (ours, theirs)

        def add(kind: int) -> None:
            for number in numbers[kind::2]:
                allow(peers[kind], f"u{number}", topic)

        def remove(kind: int) -> None:
            for number in numbers[::3]:
                if number % 2 != kind:  # what the other kind has made
                    take_back(peers[kind], f"u{number}", topic)

        for change in (add, remove):
            list(threads.map(change, (OTTLA, KAFKA)))
            expected = {f"User:u{n}" for n in numbers if change is add or n % 3}
            for peer in peers:
                until(lambda peer=peer, expected=expected: allowed(peer, topic) == expected)


@pytest.mark.parametrize("kind", [OTTLA, KAFKA])
def test_a_token_made_at_one_kind_logs_in_at_the_other(mixed: Mixed, kind: int) -> None:
    create = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=3_600_000)
    with mixed.peer(kind) as peer:
        token = peer.ask(create, 2)
    assert token.error_code == 0
    login = token.token_id, base64.b64encode(token.hmac).decode()
    other = 1 - kind
    until(lambda: mixed.logs_in(other, *login, by_token=True))
    where = mixed.address(other), mixed.authority.certificate
    with SecuredPeer(*where, *login, by_token=True) as peer:
        assert peer.ask(create, 2).error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with mixed.peer(other) as peer:
        renewed = peer.ask(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=60_000), 2)
    assert renewed.error_code == 0
    assert renewed.expiry_timestamp_ms < token.expiry_timestamp_ms
    with mixed.peer(kind) as peer:
        expire = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        assert peer.ask(expire, 2).error_code == 0
    for each in (OTTLA, KAFKA):
        until(lambda each=each: not mixed.logs_in(each, *login, by_token=True))


NOT_ASKED = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    # If an unauthorised user asks for all users, Kafka fails in its handler and never answers.
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    # If a type is 0, Kafka closes the connection before it authorises the user; we authorise first.
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
}
REFUSED = {
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


BY_NAME = {ApiKey.FETCH: 12}
"""The last versions with topic names: for an unknown topic id Kafka returns another error."""


def error_codes(answer: Struct) -> list[int]:
    """Return every error code of an answer, in the order of its fields."""
    codes = []
    for field in type(answer).__schema__.fields:
        value = getattr(answer, field.name)
        if field.name.endswith("error_code"):
            codes.append(int(value))
        elif isinstance(value, list):
            codes += [code for each in value if isinstance(each, Struct) for code in error_codes(each)]
    return codes


def test_who_has_no_rule_is_refused_alike(mixed: Mixed) -> None:
    """Every API that both serve, with one of everything in the request, from a user without any rule."""
    mixed.make_user("nobody")
    served = {}
    for kind in (OTTLA, KAFKA):
        with mixed.peer(kind) as peer:
            answer = peer.ask(ApiVersionsRequest(), 0)
            served[kind] = {each.api_key: each.max_version for each in answer.api_keys}

    def codes(kind: int, api: Api, version: int) -> list[int] | str:
        where = mixed.address(kind), mixed.authority.certificate
        with SecuredPeer(*where, "nobody", "nobody") as peer:
            request = next(cases(api, version)).frame
            peer.socket.sendall(request)
            try:
                frame = peer.read_frame()
            except (AssertionError, OSError):
                return "closed"
            return error_codes(decode_response(api.response, version, frame)[1])

    different, refusals = {}, 0
    for key in sorted(served[OTTLA].keys() & served[KAFKA].keys() - NOT_ASKED):
        api = API_TABLE[key]
        version = min(served[OTTLA][key], served[KAFKA][key], BY_NAME.get(key, api.max_version))
        answers = [codes(kind, api, version) for kind in (OTTLA, KAFKA)]
        by_controller = [each for each in answers if Error.NOT_CONTROLLER not in set(each)]
        if len(by_controller) == 1:  # the other one is not the controller, which it checks first
            is_alike = bool(REFUSED & set(by_controller[0]))
        else:
            is_alike = answers[OTTLA] == answers[KAFKA]
        refusals += is_alike and any(REFUSED & set(each) for each in answers)
        if not is_alike:
            different[f"{api.name} v{version}"] = answers
    assert refusals > 30
    assert not different, "\n".join(f"{name}: {answers}" for name, answers in different.items())


def test_filters_of_quotas(mixed: Mixed) -> None:
    """Both kinds find the same with each filter; and the SCRAM credentials beside the quotas stay."""
    names = (None, "alice", "bob", "c d", "admin")
    entities = [{"user": user} for user in names] + [{"client-id": client} for client in names]
    entities += [{"user": user, "client-id": client} for user in names for client in names]
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key="consumer_byte_rate", value=float(1e9 + number), remove=False)],
        )
        for number, entity in enumerate(entities)
    ]
    chance = random.Random(61)
    filters = [DescribeClientQuotasRequest(components=[], strict=False)]
    for _ in range(200):
        components = [
            ComponentData(
                entity_type=kind,
                match_type=(match := chance.randrange(3)),
                match=chance.choice(names[1:]) if match == 0 else None,
            )
            for kind in ("user", "client-id")
            if chance.random() < 0.7
        ]
        filters.append(DescribeClientQuotasRequest(components=components, strict=chance.random() < 0.5))

    def found(peer: SecuredPeer, wanted: DescribeClientQuotasRequest) -> object:
        answer = peer.ask(wanted, 1)
        listed = {
            tuple(sorted((part.entity_type, part.entity_name or "") for part in each.entity)): {
                value.key: value.value for value in each.values
            }
            for each in answer.entries or ()
        }
        return answer.error_code, listed

    with mixed.peer(OTTLA) as ours, mixed.peer(KAFKA) as theirs:
        altered = ours.ask(AlterClientQuotasRequest(entries=entries, validate_only=False), 1)
        assert {each.error_code for each in altered.entries} == {0}
        for peer in (ours, theirs):
            until(lambda peer=peer: len(found(peer, filters[0])[1]) == len(entities))
        for wanted in filters:
            assert found(ours, wanted) == found(theirs, wanted), wanted
        removed = [
            EntryData(entity=each.entity, ops=[OpData(key="consumer_byte_rate", value=0.0, remove=True)])
            for each in entries
        ]
        altered = theirs.ask(AlterClientQuotasRequest(entries=removed, validate_only=False), 1)
        assert {each.error_code for each in altered.entries} == {0}
        until(lambda: not found(ours, filters[0])[1])
    assert mixed.logs_in(KAFKA, "admin", ADMIN_PASSWORD)


def test_a_quota_holds_at_both(mixed: Mixed) -> None:
    """At each broker at most a fifth over the quota, both at once; the first burst of the windows does not count."""
    mixed.make_user("slow")
    mixed.create("slow", 2)
    admin = AdminClient(mixed.librdkafka(OTTLA))
    with mixed.peer(OTTLA) as peer:
        allow(peer, "slow", "slow")
    for kind in (OTTLA, KAFKA):
        until(lambda kind=kind: mixed.produced(kind, "slow", "slow") == 0)
    quota = EntryData(
        entity=[EntityData(entity_type="user", entity_name="slow")],
        ops=[OpData(key="producer_byte_rate", value=float(RATE), remove=False)],
    )
    with mixed.peer(OTTLA) as peer:
        assert (
            peer.ask(AlterClientQuotasRequest(entries=[quota], validate_only=False), 1).entries[0].error_code
            == 0
        )
    partitions = admin.list_topics("slow", timeout=20).topics["slow"].partitions
    assert {each.leader for each in partitions.values()} == {OTTLA, KAFKA}
    clock, sent = SystemClock(), dict.fromkeys(partitions, 0)
    began: dict[int, float] = {}
    ended: dict[int, float] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        number = message.partition()
        sent[number] += len(RECORD) if error is None else 0
        for limit, passed in ((BURST_BYTES, began), (BURST_BYTES + MEASURED_BYTES, ended)):
            if sent[number] >= limit:
                passed.setdefault(number, clock.monotonic())

    small = {"queue.buffering.max.messages": 60, "batch.size": 100_000, "linger.ms": 200, "max.in.flight": 1}
    producers = [Producer(mixed.librdkafka(OTTLA, "slow", "slow") | small) for _ in partitions]

    def both_have_ended() -> bool:
        for number, producer in enumerate(producers):
            with suppress(BufferError):
                while True:
                    producer.produce("slow", RECORD, partition=number, on_delivery=delivered)
            producer.poll(0)
        return len(ended) == len(producers)

    until(both_have_ended, 180)
    for number in partitions:
        # A rate below the quota can also come from a busy machine.
        assert 0.5 * RATE < MEASURED_BYTES / (ended[number] - began[number]) < 1.2 * RATE
    for producer in producers:
        producer.purge()


def test_javas_tools_list_topics_at_both(mixed: Mixed) -> None:
    listed = {kind: mixed.tool(kind, TOPICS, "--list") for kind in (OTTLA, KAFKA)}
    for each in listed.values():
        assert each.returncode == 0, each.stdout + each.stderr
    assert sorted(listed[OTTLA].stdout.split()) == sorted(listed[KAFKA].stdout.split())


def test_a_broker_is_killed(mixed: Mixed) -> None:
    """The last test, because only one broker survives: what was acknowledged before and after is read from it."""
    mixed.create("survivor", 4, **{"min.insync.replicas": "1"})
    config = mixed.librdkafka(OTTLA)
    producer = Producer(config | {"acks": "all", "enable.idempotence": True})
    acknowledged: list[bytes] = []

    def produce(begin: int) -> None:
        for number in range(begin, begin + 500):
            producer.produce(
                "survivor",
                str(number),
                on_delivery=lambda error, message: error or acknowledged.append(message.value()),
            )
        assert producer.flush(60) == 0

    produce(0)
    mixed.kafka.kill()
    produce(500)
    assert len(acknowledged) == 1000
    consumer = Consumer(config | {"group.id": "survivors", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("survivor", number, 0) for number in range(4)])
    seen: set[bytes] = set()

    def all_read() -> bool:
        seen.update(message.value() for message in consumer.consume(1000, 1) if not message.error())
        return seen >= set(acknowledged)

    until(all_read)
    consumer.close()
