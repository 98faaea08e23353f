"""Key stores and trust stores as Kafka's ``ssl.*`` keys name them: JKS, PKCS12 and PEM, in files or as text.

A file's first bytes decide its type: Java too reads a PKCS12 file that is configured as JKS, and vice versa.
"""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from security import jks
from security.errors import SecurityConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

Lookup: TypeAlias = Callable[[str], str | None]
"""Returns the value of a key such as ``ssl.keystore.location``; None where there is none."""
STORE_BYTES_MAX: Final = 16 * 1024 * 1024
_TYPES: Final = ("JKS", "PKCS12", "PEM")
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEYS: Final = frozenset({"PRIVATE KEY", "ENCRYPTED PRIVATE KEY"})


class KeyMaterial(NamedTuple):
    """A private key and its certificates.

    Attributes:
        pem: The key, then the certificates, the key's own first.
        password: What decrypts the key; None where it is not encrypted.
        entries: How many entries the store has.
    """

    pem: str
    password: str | None
    entries: int

    def __repr__(self) -> str:
        return f"<KeyMaterial of {self.entries} entries>"

    @property
    def certificate(self) -> str:
        """The key's own certificate, as PEM."""
        return next(_pem_blocks(self.pem, "CERTIFICATE"))


def read_key_store(get: Lookup, prefix: str = "") -> KeyMaterial | None:
    """Read the key store that the settings name; None where they name none.

    Args:
        get: The settings.
        prefix: The prefix of ``ssl.`` in the keys that errors name.

    Raises:
        SecurityConfigError: the settings contradict each other, the file cannot be read, or a password is wrong.
    """
    location = get("ssl.keystore.location")
    key, chain = get("ssl.keystore.key"), get("ssl.keystore.certificate.chain")
    kind = _kind(get, "ssl.keystore.type", prefix)
    if key is not None or chain is not None:
        if kind != "PEM":
            raise SecurityConfigError(
                f"{prefix}ssl.keystore.type", "expected PEM where the key is given as text"
            )
        if location is not None or get("ssl.keystore.password") is not None:
            raise SecurityConfigError(
                f"{prefix}ssl.keystore.key",
                "a key given as text has no location and no store password beside it",
            )
        if key is None or chain is None:
            missing = "key" if key is None else "certificate.chain"
            raise SecurityConfigError(f"{prefix}ssl.keystore.{missing}", "it is missing")
        return _pem_key(key, chain, get("ssl.key.password"), f"{prefix}ssl.keystore.key")
    if location is None:
        return None
    data = _read(location, f"{prefix}ssl.keystore.location")
    store_password = get("ssl.keystore.password")
    setting = f"{prefix}ssl.keystore.location"
    if kind == "PEM":
        if store_password is not None:
            raise SecurityConfigError(
                f"{prefix}ssl.keystore.password", "a PEM file has none: see ssl.key.password"
            )
        text = _text(data, setting)
        return _pem_key(text, text, get("ssl.key.password"), setting)
    key_password = get("ssl.key.password")
    if data.startswith(jks.MAGIC):
        return _jks_key(data, store_password, key_password or store_password, prefix)
    return _pkcs12_key(data, store_password, prefix)


def read_trust_store(get: Lookup, prefix: str = "") -> str | None:
    """Return the certificates that the settings trust, as PEM; None where they name no store.

    Raises:
        SecurityConfigError: the settings contradict each other, the file cannot be read, or the password is wrong.
    """
    location, text = get("ssl.truststore.location"), get("ssl.truststore.certificates")
    kind = _kind(get, "ssl.truststore.type", prefix)
    if text is not None:
        if kind != "PEM" or location is not None:
            raise SecurityConfigError(
                f"{prefix}ssl.truststore.certificates",
                "it needs ssl.truststore.type PEM, and no location beside it",
            )
        return _certificates(text, f"{prefix}ssl.truststore.certificates")
    if location is None:
        return None
    setting = f"{prefix}ssl.truststore.location"
    data = _read(location, setting)
    password = get("ssl.truststore.password")
    if kind == "PEM":
        return _certificates(_text(data, setting), setting)
    if data.startswith(jks.MAGIC):
        try:
            found = jks.read_jks(data, password).trusted
        except jks.JksError as error:
            raise SecurityConfigError(f"{prefix}ssl.truststore.password", str(error)) from None
    else:
        store = _pkcs12(data, password, f"{prefix}ssl.truststore.password")
        certificates = [each.certificate for each in store.additional_certs]
        found = tuple(_der_of(each) for each in certificates)
    if not found:
        raise SecurityConfigError(setting, "the store holds no trusted certificate")
    return "".join(_as_pem(each, "CERTIFICATE") for each in found)


def _kind(get: Lookup, key: str, prefix: str) -> str:
    kind = (get(key) or "JKS").upper()
    if kind not in _TYPES:
        raise SecurityConfigError(f"{prefix}{key}", f"expected one of {', '.join(_TYPES)}, not {kind}")
    return kind


def _read(location: str, key: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise SecurityConfigError(key, f"{location}: {error.strerror}") from None
    if not data or len(data) > STORE_BYTES_MAX:
        raise SecurityConfigError(key, f"{location}: it is empty, or larger than {STORE_BYTES_MAX} bytes")
    return data


def _text(data: bytes, key: str) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise SecurityConfigError(key, "it is no PEM file; set the store's type") from None


def _pem_blocks(text: str, kind: str) -> Iterator[str]:
    return (match[0] + "\n" for match in _BLOCK.finditer(text) if match[1] == kind)


def _pem_key(key_text: str, chain_text: str, password: str | None, key: str) -> KeyMaterial:
    kinds = [match[1] for match in _BLOCK.finditer(key_text) if match[1].endswith("PRIVATE KEY")]
    if len(kinds) != 1:
        raise SecurityConfigError(key, f"expected one private key, not {len(kinds)}")
    if kinds[0] not in _KEYS:
        raise SecurityConfigError(
            key,
            f"the private key is in the form {kinds[0]}; Kafka takes PKCS#8: openssl pkcs8 -topk8 converts it",
        )
    if kinds[0].startswith("ENCRYPTED") and password is None:
        raise SecurityConfigError(key, "the private key is encrypted, and ssl.key.password is missing")
    certificates = _certificates(chain_text, key)
    private = next(_pem_blocks(key_text, kinds[0]))
    return KeyMaterial(private + certificates, password if kinds[0].startswith("ENCRYPTED") else None, 1)


def _certificates(text: str, key: str) -> str:
    blocks = list(_pem_blocks(text, "CERTIFICATE"))
    if not blocks:
        raise SecurityConfigError(key, "no certificate was found")
    return "".join(blocks)


def _jks_key(data: bytes, password: str | None, key_password: str | None, prefix: str) -> KeyMaterial:
    if password is None or key_password is None:
        raise SecurityConfigError(f"{prefix}ssl.keystore.password", "it is missing")
    try:
        store = jks.read_jks(data, password)
        if not store.keys:
            raise SecurityConfigError(f"{prefix}ssl.keystore.location", "the store holds no private key")
        key = store.keys[0]
        private = _as_pem(jks.unprotect(key, key_password), "PRIVATE KEY")
    except jks.JksError as error:
        raise SecurityConfigError(f"{prefix}ssl.keystore.password", str(error)) from None
    pem = private + "".join(_as_pem(each, "CERTIFICATE") for each in key.chain)
    return KeyMaterial(pem, None, len(store.keys) + len(store.trusted))


def _pkcs12_key(data: bytes, password: str | None, prefix: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _pkcs12(data, password, f"{prefix}ssl.keystore.password")
    if store.key is None or store.cert is None:
        raise SecurityConfigError(f"{prefix}ssl.keystore.location", "the store holds no private key")
    private = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    own = store.cert.certificate
    others = {each.certificate.subject: each.certificate for each in store.additional_certs}
    chain = [own]
    while chain[-1].issuer != chain[-1].subject and chain[-1].issuer in others:
        chain.append(others.pop(chain[-1].issuer))
    pem = private + "".join(_as_pem(_der_of(each), "CERTIFICATE") for each in chain)
    return KeyMaterial(pem, None, 1 + len(store.additional_certs) - (len(chain) - 1))


def _pkcs12(data: bytes, password: str | None, key: str) -> "PKCS12KeyAndCertificates":
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # it costs start-up time

    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError):
        raise SecurityConfigError(
            key, "the password is wrong, or the file is no JKS or PKCS12 store"
        ) from None


def _der_of(certificate: "Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def _as_pem(der: bytes, kind: str) -> str:
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
