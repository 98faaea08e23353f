"""Hostile input before and after the login: refused with the right code, nothing shown, memory bounded, others served.

One broker with every kind of secret that a broker can have. Frames and SASL before authentication are in
`test_hostile_strangers`, and by the million in `tests.fuzz`; here are certificates, what TLS allows a peer to send,
access rules, quotas and tokens. At the end everything that the broker shows or writes is searched for the secrets.
"""

import base64
import contextlib
import datetime
import inspect
import json
import re
import secrets
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.configuration.catalogue import broker_settings
from ottla.management_client import ManagementClient
from security.errors import AuthenticationError
from security.sasl_client import PlainClient, SaslCredentials, authenticate
from security.scram import ScramMechanism
from tests.compat.certificates import Authority, run
from tests.compat.secured_cluster import SecuredCluster, write_properties
from tests.compat.test_sasl import PLAIN_MODULE, SCRAM_MODULE
from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from wire.schema import Request

SASL, ONE_WAY, MUTUAL, TOKEN = range(4)
MEMORY_BYTES = 200 << 20
ADMIN, ALICE = "admin", "alice"
TOPIC, CLUSTER, LITERAL, WRITE, ALLOW = 2, 4, 3, 4, 3
BROKER, LOGGER = 4, 8
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Secrets:
    """Every secret of the test, by where it is configured; nothing else can contain one by chance."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self.known.setdefault(name, f"s3cr3t{secrets.token_hex(8)}")

    def note(self, name: str, value: bytes | str) -> None:
        """Add a secret that was made elsewhere; one in bytes is added in each form that could be shown."""
        if isinstance(value, str):
            self.known[name] = value
        else:
            self.known |= {f"{name}, base64": base64.b64encode(value).decode(), f"{name}, hex": value.hex()}

    def found_in(self, text: str | bytes) -> list[str]:
        data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        return [name for name, secret in self.known.items() if secret.encode() in data]


class Site:
    """The broker, its authority, its secrets and its users."""

    def __init__(self, directory: Path, cluster: SecuredCluster) -> None:
        self.directory = directory
        self.cluster = cluster
        self.ca = trustme.CA()
        self.secrets = Secrets()
        self.authority = Authority(directory / "authority")
        self.metrics_port = cluster.ports[1][0]
        self.socket = directory / "management.sock"

    @property
    def log(self) -> str:
        return self.cluster.brokers[0].log

    def settings(self) -> Mapping[str, str]:
        """Return settings with every kind of secret that one broker can have at once."""
        own, store = self.secrets, self._store()
        passwords = " ".join(f'user_{name}="{own[name]}"' for name in ("broker", ADMIN, ALICE))
        plain = f'{PLAIN_MODULE} required username="broker" password="{own["broker"]}" {passwords};'
        pem = self.authority.pem("inline").read_text()
        key, _, chain = pem.partition("-----END PRIVATE KEY-----\n")
        key += "-----END PRIVATE KEY-----\n"
        own.note("inline key", key.splitlines()[1])
        names = ("SASL", "ONEWAY", "MUTUAL", "TOKEN")
        ports = self.cluster.ports[0]
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{ports[n]}" for n, name in enumerate(names)),
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,ONEWAY:SSL,MUTUAL:SSL,TOKEN:SASL_SSL",
            "inter.broker.listener.name": "SASL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.plain.sasl.jaas.config": plain,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.token.oauthbearer.sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
            ),
            "sasl.jaas.config": f'{PLAIN_MODULE} required user_x="{own["sasl.jaas.config"]}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._trusted()),
            "listener.name.oneway.ssl.keystore.type": "PEM",
            "listener.name.oneway.ssl.keystore.key": key,
            "listener.name.oneway.ssl.keystore.certificate.chain": chain,
            **{
                f"listener.name.{listener}.{name}": value
                for listener in ("mutual", "token")
                for name, value in {
                    "ssl.keystore.type": "PKCS12",
                    "ssl.keystore.location": str(store),
                    "ssl.keystore.password": own["ssl.keystore.password"],
                    "ssl.key.password": own["ssl.keystore.password"],
                }.items()
            },
            "listener.name.mutual.ssl.client.auth": "required",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:admin",
            "password.encoder.secret": own["password.encoder.secret"],
            "password.encoder.old.secret": own["password.encoder.old.secret"],
            "delegation.token.secret.key": own["delegation.token.secret.key"],
            "zookeeper.ssl.keystore.password": own["zookeeper.ssl.keystore.password"],
            "zookeeper.ssl.truststore.password": own["zookeeper.ssl.truststore.password"],
            "ottla.metrics.port": str(self.metrics_port),
            "ottla.management.socket": str(self.socket),
        }

    def _store(self) -> Path:
        pem, path = self.authority.pem("broker"), self.directory / "broker.p12"
        password = self.secrets["ssl.keystore.password"]
        run(
            *("openssl", "pkcs12", "-export", "-in", str(pem), "-out", str(path)),
            *("-passout", f"pass:{password}", "-name", "broker"),
        )
        self.secrets.note("key of the store", pem.read_text().splitlines()[1])
        return path

    def _trusted(self) -> Path:
        path = self.directory / "clients.pem"
        self.ca.cert_pem.write_to_path(str(path))
        return path

    def connect(self, listener: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.cluster.ports[0][listener]), timeout=20)

    def log_in(self, client: RawClient, user: str, password: str) -> None:
        """Log in by PLAIN.

        Raises:
            AuthenticationError: the broker refuses.
        """
        exchange = authenticate(SaslCredentials("PLAIN", lambda: PlainClient(user, password)), "x")
        frame = next(exchange)
        with contextlib.suppress(StopIteration):
            while True:
                client.socket.sendall(frame)
                frame = exchange.send(client.read_frame())

    def connected(self) -> RawClient:
        return RawClient(f"127.0.0.1:{self.cluster.ports[0][SASL]}", timeout_s=20)

    @contextlib.contextmanager
    def client(self, user: str = ADMIN) -> Iterator[RawClient]:
        """Open a logged-in client of single requests."""
        with self.connected() as client:
            self.log_in(client, user, self.secrets[user])
            yield client

    def ask(self, request: Request, version: int) -> Any:
        with self.client() as client:
            return client.ask(request, version)

    def memory(self) -> int:
        status = Path(f"/proc/{self.cluster.brokers[0].process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("hostile")
    with SecuredCluster(directory, 2) as cluster:  # the second broker is not started: its ports are free
        site = Site(directory, cluster)
        cluster.start([site.settings()])
        levels = [AlterableConfig(name="root", config_operation=0, value="DEBUG")]
        loggers = AlterConfigsResource(resource_type=LOGGER, resource_name="0", configs=levels)
        answer = site.ask(IncrementalAlterConfigsRequest(resources=[loggers], validate_only=False), 1)
        assert [each.error_code for each in answer.responses] == [0], answer
        yield site


@pytest.fixture(autouse=True)
def it_lives(site: Site) -> Iterator[None]:
    yield
    assert site.ask(ApiVersionsRequest(), 0).error_code == 0
    assert "Traceback" not in site.log
    assert site.memory() < MEMORY_BYTES


# TLS


def certificate(
    ca: trustme.CA,
    subject: x509.Name,
    begins: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + DAY,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> bytes:
    """Return a key and a certificate, signed by an authority that does not check its content."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(authority.subject)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begins).not_valid_after(ends)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    signed = builder.sign(ca._private_key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + signed.public_bytes(Encoding.PEM)


def named(*values: str, kind: _ASN1Type | None = None) -> x509.Name:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, value, kind, _validate=False) for value in values]
    return x509.Name(names)


def is_served(site: Site, pem: bytes, folder: Path) -> bool:
    """Return whether a client with this certificate gets an answer on the listener that demands one."""
    path = folder / "client.pem"
    path.write_bytes(pem)
    context = ssl.create_default_context(cafile=str(site.authority.certificate))
    context.load_cert_chain(path)
    try:
        with context.wrap_socket(site.connect(MUTUAL), server_hostname="localhost") as peer:
            frame = bytes.fromhex("0000000b 0012 0000 00000001 0001 78".replace(" ", ""))
            peer.sendall(frame)
            return len(peer.recv(4)) == 4
    except OSError:  # an alert, an end or a reset
        return False


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("good", True),
        ("expired", False),
        ("not yet valid", False),
        ("another authority", False),
        ("for servers only", False),
        ("a subject of 60 KB", False),
        ("two names, commas, newlines", True),
        ("UTF-16", True),
        ("empty", True),
    ],
)
def test_certificates(site: Site, tmp_path: Path, name: str, served: bool) -> None:
    alice = named("alice")
    pem = {
        "good": lambda: certificate(site.ca, alice),
        "expired": lambda: certificate(site.ca, alice, NOW - 2 * DAY, NOW - DAY),
        "not yet valid": lambda: certificate(site.ca, alice, NOW + DAY, NOW + 2 * DAY),
        "another authority": lambda: certificate(trustme.CA(), alice),
        "for servers only": lambda: certificate(site.ca, alice, usage=ExtendedKeyUsageOID.SERVER_AUTH),
        "a subject of 60 KB": lambda: certificate(site.ca, named(*["n" * 60] * 1000)),
        "two names, commas, newlines": lambda: certificate(site.ca, named("a,CN=admin", "b\nallowed=true")),
        "UTF-16": lambda: certificate(site.ca, named("älice", kind=_ASN1Type.BMPString)),
        "empty": lambda: certificate(site.ca, x509.Name([])),
    }[name]()
    assert is_served(site, pem, tmp_path) is served


def test_key_updates_renegotiation_and_empty_records(site: Site) -> None:
    def speak(version: str, text: bytes) -> bytes:
        address = f"127.0.0.1:{site.cluster.ports[0][ONE_WAY]}"
        command = ["openssl", "s_client", "-connect", address, f"-{version}"]
        done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
        return done.stdout + done.stderr

    assert b"TLSv1.3" in speak("tls1_3", b"K\n" * 10_000)
    assert b"no renegotiation" in speak("tls1_2", b"R\n")
    context = ssl.create_default_context(cafile=str(site.authority.certificate))
    with context.wrap_socket(site.connect(ONE_WAY), server_hostname="localhost") as peer:
        raw = socket.socket(fileno=peer.detach())
        with raw, contextlib.suppress(OSError):
            raw.sendall(b"\x17\x03\x03\x00\x00" * 10_000)
            assert len(raw.recv(4096)) < 4096


def test_sockets_that_stop_within_the_handshake(site: Site) -> None:
    before = site.memory()
    peers = [site.connect((ONE_WAY, MUTUAL, TOKEN)[number % 3]) for number in range(500)]
    for peer in peers:
        peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert site.ask(ApiVersionsRequest(), 0).error_code == 0
    assert site.memory() < before + (50 << 20)
    for peer in peers:
        peer.close()


# Access rules


def rule(
    name: str = "t", principal: str = "User:x", kind: int = TOPIC, pattern: int = LITERAL
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=WRITE,
        permission_type=ALLOW,
    )


INVALID, UNKNOWN, NONE = Error.INVALID_REQUEST, Error.UNKNOWN_SERVER_ERROR, Error.NONE


def test_rules_that_cannot_be(site: Site) -> None:
    cases = [
        (rule(""), INVALID),
        (rule("."), INVALID),
        (rule(".."), INVALID),
        (rule("a/b"), INVALID),
        (rule("a\0b"), INVALID),
        (rule("a\uf8ff"), INVALID),
        (rule("other", kind=CLUSTER), INVALID),
        (rule(principal="nobody"), UNKNOWN),
        (rule(principal=""), UNKNOWN),
        (rule("kept"), NONE),
    ]
    answer = site.ask(CreateAclsRequest(creations=[case for case, _ in cases]), 3)
    assert [each.error_code for each in answer.results] == [code for _, code in cases]
    for pattern in (1, 2):
        answer = site.ask(CreateAclsRequest(creations=[rule(pattern=pattern), rule("t2")]), 3)
        assert [each.error_code for each in answer.results] == [UNKNOWN, UNKNOWN]
    unknown = CreateAclsRequest(creations=[rule(kind=kind) for kind in (8, 127, -128)])
    assert {each.error_code for each in site.ask(unknown, 3).results} == {INVALID}
    with site.client() as client, pytest.raises((AssertionError, ConnectionError)):
        client.ask(CreateAclsRequest(creations=[rule(kind=0)]), 3)
    longest = "n" * 32_767
    huge = site.ask(CreateAclsRequest(creations=[rule("kept", f"User:{longest[5:]}"), rule(longest)]), 3)
    assert {each.error_code for each in huge.results} <= {NONE, INVALID}
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    described = site.ask(everything, 3)
    assert {each.resource_name for each in described.resources} - {longest} == {"kept"}


def test_many_rules_at_once(site: Site) -> None:
    creations = [rule("crowd", f"User:{number}") for number in range(5_000)]
    answer = site.ask(CreateAclsRequest(creations=creations), 3)
    assert {each.error_code for each in answer.results} == {NONE}
    with site.client(ALICE) as client:
        refused = client.ask(CreateAclsRequest(creations=creations[:3]), 3)
    assert {each.error_code for each in refused.results} == {Error.CLUSTER_AUTHORIZATION_FAILED}


# Quotas


def quota(entity: Mapping[str, str | None], key: str, value: float) -> EntryData:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return EntryData(entity=parts, ops=[OpData(key=key, value=value, remove=False)])


def test_quotas_that_cannot_be(site: Site) -> None:
    rate, user = "producer_byte_rate", {"user": "eve"}
    refused = [
        *(quota(user, rate, value) for value in (float("nan"), float("inf"), -1.0, 0.0, -0.0, 1e-300, 1e308)),
        quota(user, "unknown", 1.0),
        quota({}, rate, 1.0),
        quota({"user": ""}, rate, 1.0),
        quota({"planet": "x"}, rate, 1.0),
        quota({"ip": "127.0.0.1", "user": "eve"}, "connection_creation_rate", 1.0),
        quota({"ip": "999.1.1.1"}, "connection_creation_rate", 1.0),
        quota({"ip": "127.0.0.1"}, "connection_creation_rate", -1.0),
        EntryData(
            entity=[EntityData(entity_type="user", entity_name=name) for name in ("a", "b")],
            ops=[OpData(key=rate, value=1.0, remove=False)],
        ),
    ]
    answer = site.ask(
        AlterClientQuotasRequest(
            entries=[
                *refused,
                quota({"user": "clients"}, rate, 5e6),
                quota({"user": "n" * 32_000}, rate, 5e6),
            ],
            validate_only=False,
        ),
        1,
    )
    assert [each.error_code for each in answer.entries] == [INVALID] * len(refused) + [NONE, NONE]
    for kind, match in (("user", 7), ("", 0), ("planet", 0)):
        component = ComponentData(entity_type=kind, match_type=match, match="x")
        found = site.ask(DescribeClientQuotasRequest(components=[component], strict=False), 1)
        assert found.error_code != NONE
    kept = site.ask(DescribeClientQuotasRequest(components=[], strict=False), 1)
    names = {(part.entity_type, part.entity_name) for each in kept.entries for part in each.entity}
    assert names == {("user", "clients"), ("user", "n" * 32_000)}


# Tokens and passwords


def create_token(lifetime_ms: int, *renewers: CreatableRenewers) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="", owner_principal_name="", renewers=list(renewers), max_lifetime_ms=lifetime_ms
    )


def test_tokens_that_cannot_be(site: Site) -> None:
    most = 2**63 - 1
    for lifetime_ms in (most, -most - 1):
        made = site.ask(create_token(lifetime_ms), 3)
        assert made.error_code == NONE
        assert made.issue_timestamp_ms < made.expiry_timestamp_ms <= made.max_timestamp_ms < most
        site.secrets.note(f"token {lifetime_ms}", made.hmac)
        for period_ms in (most, -most - 1):
            renewed = site.ask(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=period_ms), 2)
            assert renewed.error_code == NONE
            assert renewed.expiry_timestamp_ms <= made.max_timestamp_ms
    stranger = CreatableRenewers(principal_type="Group", principal_name="g")
    assert site.ask(create_token(1000, stranger), 3).error_code == Error.INVALID_PRINCIPAL_TYPE
    for hmac in (b"", bytes(1 << 20)):
        asked: list[tuple[Request, int]] = [
            (RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1), 2),
            (ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=1), 2),
        ]
        for request, version in asked:
            assert site.ask(request, version).error_code == Error.DELEGATION_TOKEN_NOT_FOUND


def credential(site: Site, name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    """Return new credentials, whose salted password is noted as a secret."""
    salt, salted = secrets.token_bytes(20), secrets.token_bytes(ScramMechanism.SHA_256.digest_size)
    site.secrets.note(f"salted password {len(site.secrets.known)}", salted)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def test_credentials_that_cannot_be(site: Site) -> None:
    wrong = [
        credential(site, "a", iterations=1),
        credential(site, "b", iterations=2**31 - 1),
        credential(site, "c", mechanism=9),
        credential(site, ""),
    ]
    answer = site.ask(
        AlterUserScramCredentialsRequest(deletions=[], upsertions=[*wrong, credential(site, "carol")]), 0
    )
    codes = {each.user: each.error_code for each in answer.results}
    assert codes.pop("carol") == NONE
    assert NONE not in codes.values()
    assert set(codes) == {"", "a", "b", "c"}


# Secrets


def test_every_secret_has_a_key() -> None:
    """A new sensitive setting has to be added to the settings above."""
    written = inspect.getsource(Site.settings)
    sensitive = {setting.name for setting in broker_settings().values() if setting.is_sensitive}
    elsewhere = {
        "delegation.token.master.key",  # another name of a setting that is there
        "ottla.zookeeper.jaas.config",  # needs a ZooKeeper that demands a login: test_secured_zookeeper
        "ssl.truststore.password",  # the trust store is PEM, which has none; test_tls has others
        "ssl.truststore.certificates",
    }
    in_quotes = r'"(listener\.name\.[a-z.{}0-9-]*\.)?%s"'
    missing = {name for name in sensitive if not re.search(in_quotes % re.escape(name), written)}
    assert missing == elsewhere


def test_no_secret_is_shown(site: Site, tmp_path: Path) -> None:
    """Search all that was logged at DEBUG, answered, described, measured or stored."""
    own = site.secrets
    for password in (own["a wrong password"], own["another one"]):
        with site.connected() as client, pytest.raises(AuthenticationError, match="Invalid username"):
            site.log_in(client, ALICE, password)
    stored = own["a password that is set while it runs"]
    changes = [
        AlterableConfig(name="listener.name.token.ssl.keystore.password", config_operation=0, value=stored)
    ]
    change = AlterConfigsResource(resource_type=BROKER, resource_name="0", configs=changes)
    answer = site.ask(IncrementalAlterConfigsRequest(resources=[change], validate_only=False), 1)
    assert [each.error_code for each in answer.responses] == [INVALID], "it is not the store's password"
    shown = {"the refusal": repr(answer)}
    everything = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in ((BROKER, "0"), (BROKER, ""), (LOGGER, "0"))
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    shown["DescribeConfigs"] = repr(site.ask(everything, 4))
    assert "ssl.keystore.password" in shown["DescribeConfigs"]
    made = AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential(site, "carol")])
    assert [each.error_code for each in site.ask(made, 0).results] == [NONE]
    users = DescribeUserScramCredentialsRequest(users=None)
    shown["DescribeUserScramCredentials"] = repr(site.ask(users, 0))
    assert "carol" in shown["DescribeUserScramCredentials"]
    with urllib.request.urlopen(f"http://127.0.0.1:{site.metrics_port}/metrics", timeout=20) as answered:
        shown["metrics"] = answered.read().decode()
    with ManagementClient(site.socket) as management:
        for method in ("describe", "partitions", "metrics", "longest_turn"):
            shown[f"management {method}"] = json.dumps(management.call(method), default=repr)
    pid = site.cluster.brokers[0].process.pid
    for what in ("cmdline", "environ", "status"):
        shown[what] = Path(f"/proc/{pid}/{what}").read_text(errors="surrogateescape")
    for file in (site.directory / "broker-0").rglob("*"):
        if file.is_file():
            shown[str(file.name)] = file.read_bytes().decode("latin-1")
    assert any("state" in name for name in shown), sorted(shown)
    wrong = write_properties(
        tmp_path / "wrong.properties",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="x" password="{own["of a client"]}";',
        },
    )
    for command in ("doctor", "topics --list"):
        program = [sys.executable, "-m", "ottla", *command.split(), "--command-config", str(wrong)]
        address = f"127.0.0.1:{site.cluster.ports[0][SASL]}"
        done = subprocess.run(
            [*program, "--bootstrap-server", address], capture_output=True, check=False, timeout=60
        )
        assert done.returncode != 0
        shown[command] = (done.stdout + done.stderr).decode()
    until(lambda: site.log.count("authentication failed") >= 2)
    assert "DEBUG" in site.log
    shown["log"] = site.log
    found = {place: names for place, text in shown.items() if (names := own.found_in(text))}
    assert not found
    assert own.found_in(f"password={own[ALICE]}!") == [ALICE], "it would have been found"
    assert len(own.known) >= 20
