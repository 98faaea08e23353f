"""What ``ottla up --secure`` makes: an authority, certificates, users, rules, and the clients' files.

ca.pem, ca.key          the authority; clients trust its certificate
broker-N.pem            a broker's key and certificate
passwords.json          the passwords of the users, made once
admin.properties        for ``--command-config`` and Java clients, as `admin`, who may do everything
user.properties         as `user`, who may use topics and groups
user.librdkafka.properties, user.py    the same for librdkafka, and as a Python program

All but the authority's certificate are readable by their owner only.
"""

import datetime
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from security.jaas import quote_jaas
from security.scram import ITERATIONS_MIN, ScramMechanism, make_credential

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, Name

    from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
    from timing.clock import Clock

BROKER_USER: Final = "broker"
ADMIN_USER: Final = "admin"
USER: Final = "user"
MECHANISM: Final = ScramMechanism.SHA_512
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LISTENER: Final = "SASL_SSL"
_VALID: Final = datetime.timedelta(days=825)
_PASSWORD_BYTES: Final = 18
_PRIVATE: Final = 0o600
_USERS_RULES: Final = (
    ("TOPIC", "*", ("Read", "Write", "Create", "Describe")),
    ("GROUP", "*", ("Read", "Describe")),
    ("TRANSACTIONAL_ID", "*", ("Write", "Describe")),
    ("CLUSTER", "kafka-cluster", ("IdempotentWrite",)),
)
"""What `user` may do."""


class ClusterSecurity:
    """The security of a cluster that we set up.

    Args:
        path: Where its files are.
        seen_from_clients: Where clients find them, if that is elsewhere.
        hosts: By broker id, names and addresses of brokers besides the ones that the cluster's state has.
    """

    def __init__(
        self,
        path: Path,
        *,
        seen_from_clients: Path | None = None,
        hosts: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._seen_from_clients = path if seen_from_clients is None else seen_from_clients
        self._hosts = hosts

    @property
    def admin_properties(self) -> Path:
        """The client properties of `admin`."""
        return self.path / "admin.properties"

    @property
    def user_properties(self) -> Path:
        """The client properties of `user`."""
        return self.path / "user.properties"

    @property
    def authority(self) -> Path:
        """The certificate of the authority."""
        return self.path / "ca.pem"

    def exists(self) -> bool:
        """Whether the cluster is a secured one."""
        return self.admin_properties.exists()

    def prepare(self, state: "ClusterState", clock: "Clock") -> None:
        """Write everything that is missing; keys and passwords that are there stay.

        Raises:
            OSError: a file cannot be written.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / "passwords.json").exists():
            made = {name: secrets.token_urlsafe(_PASSWORD_BYTES) for name in (BROKER_USER, ADMIN_USER, USER)}
            self._write("passwords.json", json.dumps(made, indent=2) + "\n")
        self._make_certificates(state, datetime.datetime.fromtimestamp(clock.wall_ms() / 1000, datetime.UTC))
        for name in (ADMIN_USER, USER):
            self._write(f"{name}.properties", self._java_properties(state, name))
        self._write("user.librdkafka.properties", self._librdkafka_properties(state))
        self._write("user.py", self._python_program(state))

    def broker_settings(self, broker: "BrokerRecord") -> dict[str, str]:
        """Return the settings of a broker that make it a secured one."""
        from ottla.commands.local.broker_files import listener_settings

        return {
            **listener_settings(_LISTENER, broker),
            "security.inter.broker.protocol": _LISTENER,
            **self.listener_security(broker.id, [_LISTENER]),
        }

    def listener_security(self, broker_id: int, listeners: Sequence[str]) -> dict[str, str]:
        """Return the settings that secure a broker's listeners, whose protocol is SASL_SSL."""
        logins = {}
        for listener in listeners:
            own = f"listener.name.{listener.lower()}"
            logins[f"{own}.{MECHANISM.value.lower()}.sasl.jaas.config"] = self._jaas(BROKER_USER)
            logins[f"{own}.{ScramMechanism.SHA_256.value.lower()}.sasl.jaas.config"] = f"{_MODULE} required;"
        return {
            **logins,
            "sasl.mechanism.inter.broker.protocol": MECHANISM.value,
            "sasl.enabled.mechanisms": ",".join(each.value for each in ScramMechanism),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.path / f"broker-{broker_id}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER_USER};User:{ADMIN_USER}",
        }

    def write_users(self, zookeeper: str) -> None:
        """Write users and rules to ZooKeeper, which has to happen before the first broker starts.

        Raises:
            CommandError: ZooKeeper is not reached.
        """
        from kazoo.exceptions import NodeExistsError

        from cluster.zookeeper.acl_znodes import LITERAL, AclEntry, AclResource, AclZnode
        from cluster.zookeeper.config_znodes import USERS, ConfigEntityZnode, sanitize
        from ottla.commands.terminal.zookeeper import connected

        nodes = {
            ConfigEntityZnode.path(USERS, sanitize(name)): ConfigEntityZnode.encode(_credentials(password))
            for name, password in self._passwords().items()
        }
        for kind, name, operations in _USERS_RULES:
            rules = [AclEntry(f"User:{USER}", "*", operation, "Allow") for operation in operations]
            nodes[AclZnode.path(AclResource(LITERAL, kind, name))] = AclZnode.encode(rules)
        with connected(zookeeper) as client:
            for path, data in nodes.items():
                try:
                    client.create(path, data, makepath=True)
                except NodeExistsError:
                    continue  # of an earlier start: what was changed since then stays

    def summary(self) -> str:
        """Return what a user is shown once the cluster runs."""
        return (
            f"users {ADMIN_USER} (may do everything) and {USER} (topics and groups), SASL_SSL with {MECHANISM.value}\n"
            f"  as {ADMIN_USER}, for commands: --command-config {self.admin_properties}\n"
            f"  as {USER}, for Java clients:   {self.user_properties}\n"
            f"  as {USER}, for librdkafka:     {self.path / 'user.librdkafka.properties'}\n"
            f"  as {USER}, in Python:          python {self.path / 'user.py'}"
        )

    @property
    def _authority_of_clients(self) -> str:
        return str(self._seen_from_clients / self.authority.name)

    def _names(self, broker: "BrokerRecord") -> list[str]:
        """Return what a broker's certificate is made out for, besides this machine's own names."""
        return [broker.host, *self._hosts.get(broker.id, ())]

    def _passwords(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.path / "passwords.json").read_text())
        return found

    def _jaas(self, name: str) -> str:
        password = self._passwords()[name]
        return f"{_MODULE} required username={quote_jaas(name)} password={quote_jaas(password)};"

    def _java_properties(self, state: "ClusterState", name: str) -> str:
        lines = {
            "bootstrap.servers": state.bootstrap_servers,
            "security.protocol": _LISTENER,
            "sasl.mechanism": MECHANISM.value,
            "sasl.jaas.config": self._jaas(name).replace("\\", "\\\\"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority_of_clients,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _librdkafka(self, state: "ClusterState") -> dict[str, str]:
        return {
            "bootstrap.servers": state.bootstrap_servers,
            "security.protocol": _LISTENER,
            "sasl.mechanism": MECHANISM.value,
            "sasl.username": USER,
            "sasl.password": self._passwords()[USER],
            "ssl.ca.location": self._authority_of_clients,
        }

    def _librdkafka_properties(self, state: "ClusterState") -> str:
        return "".join(f"{key}={value}\n" for key, value in self._librdkafka(state).items())

    def _python_program(self, state: "ClusterState") -> str:
        return _PROGRAM.format(config=json.dumps(self._librdkafka(state), indent=4))

    def _make_certificates(self, state: "ClusterState", now: datetime.datetime) -> None:
        # One that was made for another --host does not do either.
        missing = [
            each
            for each in state.brokers
            if not _is_made_out_for(self.path / f"broker-{each.id}.pem", self._names(each))
        ]
        if self.authority.exists() and not missing:
            return
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate

        key_file = self.path / "ca.key"
        if not self.authority.exists() or not key_file.exists():
            key, certificate = _make_authority(now)
            self._write("ca.key", _key_pem(key))
            self._write("ca.pem", _certificate_pem(certificate), 0o644)
            missing = list(state.brokers)
        else:
            loaded = load_pem_private_key(key_file.read_bytes(), None)
            key = loaded  # type: ignore[assignment]  # we made it: it is an EC key
            certificate = load_pem_x509_certificate(self.authority.read_bytes())
        for broker in missing:
            issued = _broker_pem(broker.id, self._names(broker), key, certificate, now)
            self._write(f"broker-{broker.id}.pem", issued)

    def _write(self, name: str, text: str, mode: int = _PRIVATE) -> None:
        """Replace a file, all or nothing; nobody else may read it for a moment."""
        scratch = self.path / f".{name}.tmp"
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        scratch.replace(self.path / name)


def _credentials(password: str) -> Mapping[str, str]:
    return {
        each.value: make_credential(each, password, secrets.token_bytes(16), ITERATIONS_MIN).to_text()
        for each in ScramMechanism
    }


def _make_authority(now: datetime.datetime) -> "tuple[EllipticCurvePrivateKey, Certificate]":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ottla local authority")])
    builder = _builder(name, name, key, now).add_extension(x509.BasicConstraints(True, 0), critical=True)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    return key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def _is_made_out_for(pem: Path, wanted: Sequence[str]) -> bool:
    """Return whether a file holds a certificate that names some hosts."""
    if not pem.exists():
        return False
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    hosts |= {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return all(_plain(host) in hosts for host in wanted)


def _plain(host: str) -> str:
    """Return a host as a certificate has it, for an address has several forms."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _broker_pem(
    broker_id: int,
    wanted: Sequence[str],
    key: "EllipticCurvePrivateKey",
    authority: "Certificate",
    now: datetime.datetime,
) -> str:
    """Return a new key and a certificate for some hosts and this machine's own names, as PEM."""
    import ipaddress
    import socket

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    own = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"broker-{broker_id}")])
    hosts, addresses = ["localhost", socket.gethostname()], ["127.0.0.1", "::1"]
    for host in wanted:
        try:
            addresses.append(str(ipaddress.ip_address(host)))
        except ValueError:
            hosts.append(host)
    hosts, addresses = list(dict.fromkeys(hosts)), list(dict.fromkeys(addresses))
    names = x509.SubjectAlternativeName(
        [
            *(x509.DNSName(each) for each in hosts),
            *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses),
        ]
    )
    builder = _builder(name, authority.subject, own, now).add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    return _key_pem(own) + _certificate_pem(builder.sign(key, hashes.SHA256()))


def _builder(
    subject: "Name", issuer: "Name", key: "EllipticCurvePrivateKey", now: datetime.datetime
) -> "CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _VALID)
    )


def _key_pem(key: "EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _certificate_pem(certificate: "Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


_PROGRAM: Final = '''"""Produce a record and consume it, over TLS and with a password. Needs confluent-kafka."""

from confluent_kafka import Consumer, Producer

CONFIG = {config}

producer = Producer(CONFIG)
producer.produce("greetings", "hello", on_delivery=lambda error, _: error and print(error))
if producer.flush(30):
    raise SystemExit("the record could not be produced")
consumer = Consumer(CONFIG | {{"group.id": "greeters", "auto.offset.reset": "earliest"}})
consumer.subscribe(["greetings"])
message = consumer.poll(30)
if message is None or message.error():
    raise SystemExit(f"the record could not be consumed: {{message and message.error()}}")
print(message.value().decode())
consumer.close()
'''
