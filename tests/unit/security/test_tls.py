"""Contexts from Kafka's keys, and sessions over bytes."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from security.errors import SecurityConfigError
from security.stores import read_key_store
from security.tls_context import client_context, openssl_name, server_context
from security.tls_session import TlsSession, failure_text

AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("localhost", common_name="broker")
KEY = load_pem_private_key(ISSUED.private_key_pem.bytes(), None)
CERTIFICATE = load_pem_x509_certificate(ISSUED.cert_chain_pems[0].bytes())
CHAIN = ISSUED.cert_chain_pems[0].bytes().decode()
PKCS8 = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PKCS1 = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
ENCRYPTED = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")).decode()
TRUST = AUTHORITY.cert_pem.bytes().decode()
AS_TEXT = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": PKCS8,
    "ssl.keystore.certificate.chain": CHAIN,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": TRUST,
}


def server(**more: str) -> ssl.SSLContext:
    return server_context((AS_TEXT | named(more)).get, "none")


def named(values: Mapping[str, str]) -> dict[str, str]:
    return {"ssl." + name.replace("_", "."): value for name, value in values.items()}


def talk(server_side: ssl.SSLContext, client_side: ssl.SSLContext, host: str = "localhost"):
    """Complete a handshake in memory; return both sides."""
    theirs = TlsSession(server_side, server_side=True)
    ours = TlsSession(client_side, server_side=False, server_hostname=host)
    while not (ours.established and theirs.established):
        ours.handshake() if not ours.established else None
        theirs.feed(ours.outgoing())
        theirs.handshake() if not theirs.established else None
        ours.feed(theirs.outgoing())
    return theirs, ours


def client(**more: str) -> ssl.SSLContext:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": TRUST}
    return client_context((trust | named(more)).get)


def test_bytes_go_both_ways() -> None:
    theirs, ours = talk(server(), client())
    ours.write(b"x" * 100_000)
    theirs.feed(ours.outgoing())
    received = bytearray()
    space = memoryview(bytearray(20_000))
    while (count := theirs.read_into(space)) is not None:
        received += space[:count]
    assert bytes(received) == b"x" * 100_000
    theirs.close()
    ours.feed(theirs.outgoing())
    assert ours.read_into(space) == 0


def test_one_read_takes_all_records_that_fit_and_the_end_behind_them_is_not_lost() -> None:
    theirs, ours = talk(server(), client())
    for number in range(10):
        ours.write(bytes([number]) * 100)
    ours.close()
    theirs.feed(ours.outgoing())
    space = memoryview(bytearray(650))
    assert theirs.read_into(space) == 650
    assert bytes(space[600:]) == b"\6" * 50
    assert theirs.read_into(space) == 350
    assert bytes(space[:100]) == b"\6" * 50 + b"\7" * 50
    assert theirs.read_into(space) == 0


def test_half_a_record_is_waited_for() -> None:
    theirs, ours = talk(server(), client())
    ours.write(b"a" * 100)
    ours.write(b"b" * 100)
    ciphertext = ours.outgoing()
    space = memoryview(bytearray(1000))
    theirs.feed(ciphertext[:-1])
    assert theirs.read_into(space) == 100
    assert theirs.read_into(space) is None
    theirs.feed(ciphertext[-1:])
    assert theirs.read_into(space) == 100
    assert bytes(space[:100]) == b"b" * 100


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_one_version(version: str) -> None:
    theirs, _ = talk(server(enabled_protocols=version), client())
    assert theirs.version == version


def test_no_common_version() -> None:
    with pytest.raises(ssl.SSLError) as failed:
        talk(server(enabled_protocols="TLSv1.2"), client(enabled_protocols="TLSv1.3"))
    assert "TLS" in failure_text(failed.value)


def test_a_cipher_suite_by_its_iana_name() -> None:
    suite = (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
        if "ec" in type(KEY).__module__ or "EC" in type(KEY).__name__
        else "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    )
    theirs, _ = talk(server(cipher_suites=suite), client())
    assert theirs._tls.cipher()[0] == openssl_name(suite)
    assert theirs.version == "TLSv1.2"


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
def test_names_of_suites(suite: str, name: str) -> None:
    assert openssl_name(suite) == name


@pytest.mark.parametrize(("host", "text"), [("example.com", "host name"), ("127.0.0.1", "address")])
def test_a_certificate_of_another_host(host: str, text: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as failed:
        talk(server(), client(), host)
    assert text in failure_text(failed.value)
    talk(server(), client(endpoint_identification_algorithm=""), host)


def certificate_of(authority: trustme.CA) -> dict[str, str]:
    """Return a client's own certificate, as settings."""
    issued = authority.issue_cert("alice")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = issued.cert_chain_pems[0].bytes().decode()
    return {"keystore_type": "PEM", "keystore_key": pem, "keystore_certificate_chain": chain}


@pytest.mark.parametrize(
    ("wanted", "shows", "passes", "is_named"),
    [
        ("none", "good", True, False),
        ("requested", "nothing", True, False),
        ("requested", "good", True, True),
        ("requested", "a stranger's", False, False),
        ("required", "nothing", False, False),
        ("required", "good", True, True),
        ("required", "a stranger's", False, False),
    ],
)
def test_client_certificates(wanted: str, shows: str, passes: bool, is_named: bool) -> None:
    """A bad certificate is refused even where none is required."""
    own = {"nothing": {}, "good": certificate_of(AUTHORITY), "a stranger's": certificate_of(trustme.CA())}
    context = server_context(AS_TEXT.get, wanted)
    try:
        theirs, _ = talk(context, client(**own[shows]))
    except ssl.SSLError:
        assert not passes
    else:
        assert passes
        assert (theirs.peer_certificate() is not None) is is_named


def test_a_certificate_of_another_authority() -> None:
    other = trustme.CA().cert_pem.bytes().decode()
    with pytest.raises(ssl.SSLCertVerificationError) as failed:
        talk(server(), client(truststore_certificates=other))
    assert "trusted" in failure_text(failed.value)


def test_plain_bytes_and_http_are_named() -> None:
    for data, text in (
        (b"\x00\x00\x00\x10\x00\x12\x00\x00" * 4, "no TLS was spoken"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
    ):
        theirs = TlsSession(server(), server_side=True)
        theirs.feed(data)
        with pytest.raises(ssl.SSLError) as failed:
            theirs.handshake()
        assert text in failure_text(failed.value)


def pkcs12_file(path: Path) -> Path:
    data = pkcs12.serialize_key_and_certificates(
        b"broker", KEY, CERTIFICATE, None, BestAvailableEncryption(b"secret")
    )
    path.write_bytes(data)
    return path


def test_every_form_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(PKCS8 + CHAIN)
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_text(ENCRYPTED + CHAIN)
    for values in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(encrypted), "ssl.key.password": "secret"},
        {"ssl.keystore.location": str(pkcs12_file(tmp_path / "a.jks")), "ssl.keystore.password": "secret"},
    ):
        talk(server_context(values.get, "none"), client())


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"ssl.keystore.key": PKCS1}, "ssl.keystore.key"),
        ({"ssl.keystore.key": ENCRYPTED}, "ssl.keystore.key"),
        ({"ssl.keystore.key": ENCRYPTED, "ssl.key.password": "wrong"}, "ssl.keystore"),
        ({"ssl.keystore.certificate.chain": TRUST}, "ssl.keystore"),
        ({"ssl.keystore.certificate.chain": "rubbish"}, "ssl.keystore.key"),
        ({"ssl.keystore.location": "/somewhere"}, "ssl.keystore.key"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type"),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type"),
        ({"ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites"),
        ({"ssl.cipher.suites": "TLS_NOTHING_WITH_NULL"}, "ssl.cipher.suites"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(values: dict[str, str], key: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        server_context((AS_TEXT | values).get, "none", "listener.name.x.")
    assert refused.value.key == f"listener.name.x.{key}"
    for secret in ("wrong", "BEGIN", "MII"):
        assert secret not in str(refused.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    store = pkcs12_file(tmp_path / "a.p12")
    for values in (
        {"ssl.keystore.location": str(tmp_path / "absent")},
        {"ssl.keystore.location": str(store), "ssl.keystore.password": "wrong"},
        {"ssl.keystore.location": str(store)},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)},
    ):
        with pytest.raises(SecurityConfigError) as refused:
            read_key_store(values.get)
        assert "wrong" not in str(refused.value).replace("the password is wrong", "")


def test_no_key_store() -> None:
    with pytest.raises(SecurityConfigError) as refused:
        server_context({}.get, "none")
    assert refused.value.key == "ssl.keystore.location"
