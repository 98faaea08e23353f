"""Java's own key store format, JKS, read without Java.

    magic FEEDFEED | version int32 | count int32 | entries | SHA-1 over password, "Mighty Aphrodite" and all before
    entry: tag int32 | alias UTF | timestamp int64
        1, private key: length int32 | EncryptedPrivateKeyInfo | count int32 | certificates
        2, trusted certificate: certificate
    certificate: type UTF (in version 2) | length int32 | DER

The key is encrypted with a stream of SHA-1 digests of the password, in UTF-16, and of the digest before:
salt (20 bytes) | key | SHA-1 of password and key.
"""

import hashlib
import hmac
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from security.der import OCTET_STRING, SEQUENCE, DerError, children, object_identifier, read_element

MAGIC: Final = b"\xfe\xed\xfe\xed"
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">H")
_DIGEST: Final = 20
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"


class JksError(ValueError):
    """The store is damaged, or the password is wrong."""


class JksKey(NamedTuple):
    """A private key's entry: its alias, the encrypted key, and its certificates, the key's own first."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


class JksStore(NamedTuple):
    """The entries of a store."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Read a store.

    Args:
        data: The file.
        password: The store's password; None leaves its integrity unchecked, as Java does.

    Raises:
        JksError: it is not a JKS store, or the password is wrong.
    """
    if not data.startswith(MAGIC) or len(data) < 12 + _DIGEST:
        raise JksError("it is no JKS key store")
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data[:-_DIGEST]).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST:]):
            raise JksError("the password is wrong, or the store was changed")
    try:
        return _Reader(data[:-_DIGEST]).store()
    except (StructError, IndexError, UnicodeDecodeError):
        raise JksError("the store ends inside an entry") from None


def unprotect(key: JksKey, password: str) -> bytes:
    """Return the private key of an entry, as PKCS#8 in DER.

    Raises:
        JksError: the password is not the key's.
    """
    try:
        outer, _ = read_element(memoryview(key.protected))
        algorithm, protected = children(outer, SEQUENCE)
        kind = object_identifier(children(algorithm, SEQUENCE)[0].content)
        if kind != _KEY_PROTECTOR or protected.tag != OCTET_STRING:
            raise JksError(f"the key {key.alias!r} is protected in an unknown way")
    except (DerError, ValueError, IndexError) as error:
        raise JksError(f"the key {key.alias!r} is malformed: {error}") from None
    content = bytes(protected.content)
    salt, encrypted, check = content[:_DIGEST], content[_DIGEST:-_DIGEST], content[-_DIGEST:]
    secret = password.encode("utf-16-be")
    stream, digest = bytearray(), salt
    while len(stream) < len(encrypted):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    plain = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise JksError(f"the password of the key {key.alias!r} is wrong")
    return plain


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(MAGIC)

    def store(self) -> JksStore:
        version = self._int()
        if version not in (1, 2):
            raise JksError(f"version {version} of JKS is unknown")
        keys, trusted = [], []
        for _ in range(self._int()):
            tag, alias = self._int(), self._text()
            self._at += 8
            if tag == 1:
                protected = self._sized()
                keys.append(
                    JksKey(alias, protected, tuple(self._certificate(version) for _ in range(self._int())))
                )
            elif tag == 2:
                trusted.append(self._certificate(version))
            else:
                raise JksError(f"an entry of the unknown kind {tag}")
        return JksStore(tuple(keys), tuple(trusted))

    def _certificate(self, version: int) -> bytes:
        if version == 2 and self._text() != "X.509":
            raise JksError("a certificate is not X.509")
        return self._sized()

    def _int(self) -> int:
        value: int = _INT.unpack_from(self._data, self._at)[0]
        self._at += _INT.size
        if value < 0 and self._at > len(MAGIC) + 4:
            raise JksError("a negative length")
        return value

    def _text(self) -> str:
        (size,) = _SHORT.unpack_from(self._data, self._at)
        self._at += _SHORT.size
        return self._take(size).decode()

    def _sized(self) -> bytes:
        return self._take(self._int())

    def _take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise IndexError
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken
