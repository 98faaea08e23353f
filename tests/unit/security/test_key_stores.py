"""Key stores that change while a broker runs: what replaces what, and what is refused."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from cluster.broker.key_stores import KeyStores
from cluster.broker.tls import tls_listener
from cluster.configuration.broker_config import BrokerConfig
from cluster.configuration.errors import ConfigError
from cluster.network.endpoints import Endpoint, SecurityProtocol
from cluster.network.tls_listener import TlsListener
from security.tls_session import TlsSession

PREFIX = "listener.name.ssl.ssl."


class Site:
    """A broker's TLS listener, its files, and the authority."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.trust = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.trust))
        self.store = self.make("store")
        given = {
            "zookeeper.connect": "localhost:2181",
            "listeners": "SSL://localhost:9093",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            "ssl.client.auth": "required",
        }
        self.config = BrokerConfig(given | {name.replace("_", "."): text for name, text in settings.items()})
        endpoint = Endpoint("SSL", "localhost", 9093, SecurityProtocol.SSL)
        self.tls: TlsListener = tls_listener(self.config, endpoint)
        self.stores = KeyStores(self.config)
        self.stores.serve(endpoint, self.tls)

    def make(
        self,
        file: str,
        name: str = "broker",
        hosts: tuple[str, ...] = ("localhost", "broker.example"),
        authority: trustme.CA | None = None,
    ) -> Path:
        issued = (authority or self.authority).issue_cert(
            *hosts, common_name=name, organization_unit_name="dev", key_type=trustme.KeyType.ECDSA
        )
        path = self.directory / f"{file}.pem"
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(pkcs8 + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path

    def shown(self) -> bytes:
        """Return the certificate that a new connection sees."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(str(self.trust))
        context.load_cert_chain(str(self.store))
        server = self.tls.session()
        client = TlsSession(context, server_side=False)
        while not (client.established and server.established):
            client.handshake()
            server.feed(client.outgoing())
            server.handshake()
            client.feed(server.outgoing())
        found = client.peer_certificate()
        assert found is not None
        return found

    def alter(self, values: dict[str, str]) -> None:
        """Check dynamic settings as AlterConfigs does, and apply them."""
        self.config.check_dynamic(values, per_broker=True)
        trio.run(self.stores.check, values)
        self.config.apply_dynamic(values, {})
        trio.run(self.stores.refresh)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def first_certificate(path: Path) -> bytes:
    text = path.read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    return ssl.PEM_cert_to_DER_cert(text[begin : text.index("-----END CERTIFICATE-----", begin) + 26])


def test_another_store_serves_new_connections(site: Site) -> None:
    new = site.make("new")
    client = site.stores.client(site.config.inter_broker_listener)
    site.alter({f"{PREFIX}keystore.location": str(new)})
    assert site.shown() == first_certificate(new)
    assert site.stores.client(site.config.inter_broker_listener) is not client, (
        "connections to other brokers show it, too"
    )
    site.alter({})
    assert site.shown() == first_certificate(site.store)


def test_a_file_that_changes_under_its_path_is_taken_over(site: Site) -> None:
    before = site.shown()
    trio.run(site.stores.refresh)
    assert site.shown() == before
    site.make("store")
    trio.run(site.stores.refresh)
    assert site.shown() == first_certificate(site.store) != before


def test_a_file_that_is_no_store_changes_nothing_and_is_logged_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    before, context = site.store.read_text(), site.tls.context
    site.store.write_text("half a file")
    trio.run(site.stores.refresh)
    trio.run(site.stores.refresh)
    assert site.tls.context is context
    assert caplog.text.count("keeps its present certificates") == 1
    site.store.write_text(before)
    trio.run(site.stores.refresh)
    assert site.shown() == first_certificate(site.store)


def test_another_subject_is_refused_unless_it_is_allowed(site: Site, tmp_path: Path) -> None:
    other = site.make("other", name="another broker")
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes"):
        site.alter({f"{PREFIX}keystore.location": str(other)})
    (tmp_path / "allowing").mkdir()
    allowing = Site(tmp_path / "allowing", ssl_allow_dn_changes="true")
    other = allowing.make("other", name="another broker")
    allowing.alter({f"{PREFIX}keystore.location": str(other)})
    assert allowing.shown() == first_certificate(other)


def test_a_name_less_is_refused_unless_it_is_allowed(site: Site, tmp_path: Path) -> None:
    less = site.make("less", hosts=("localhost",))
    with pytest.raises(ConfigError, match=r"has broker\.example.*ssl\.allow\.san\.changes"):
        site.alter({f"{PREFIX}keystore.location": str(less)})
    (tmp_path / "allowing").mkdir()
    allowing = Site(tmp_path / "allowing", ssl_allow_san_changes="true")
    less = allowing.make("less", hosts=("localhost",))
    allowing.alter({f"{PREFIX}keystore.location": str(less)})
    assert allowing.shown() == first_certificate(less)


def test_a_store_that_other_brokers_would_not_trust_is_refused(site: Site) -> None:
    foreign = site.make("foreign", authority=trustme.CA())
    with pytest.raises(ConfigError, match="by which brokers reach each other"):
        site.alter({f"{PREFIX}keystore.location": str(foreign)})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({f"{PREFIX}keystore.location": "/nowhere"}, "No such file"),
        ({f"{PREFIX}keystore.type": "JKS"}, "keystore"),
        ({"listener.name.other.ssl.keystore.location": "/tmp"}, "OTHER is none"),
        ({"ssl.keystore.location": "/tmp"}, "no change at run time"),
        ({f"{PREFIX}client.auth": "none"}, "no change at run time"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(site: Site, values: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        site.alter(values)
    assert "ssl" in str(caught.value)


def test_a_default_of_all_brokers_holds_no_store(site: Site) -> None:
    with pytest.raises(ConfigError, match="for one broker"):
        site.config.check_dynamic({f"{PREFIX}keystore.location": "/a"}, per_broker=False)
