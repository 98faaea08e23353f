"""DIGEST-MD5 (RFC 2831) as a client, for ZooKeeper alone: Kafka's protocol does not have it.

    server: realm="zk-sasl-md5",nonce="...",charset=utf-8,algorithm=md5-sess
    client: username="...",realm="...",nonce="...",nc=00000001,cnonce="...",digest-uri="...",response=...,qop=auth
    server: rspauth=...

MD5 protects little against an eavesdropper: use TLS beneath it.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final

from security.errors import AuthenticationError

_DIRECTIVE: Final = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s,"]+))\s*(?:,|$)')
_NONCE_COUNT: Final = "00000001"


class DigestMd5Client:
    """One login.

    Args:
        user: The name.
        password: The password.
        uri: ``service/host``, as the server has it.
        make_nonce: Returns a nonce of our own, of letters and digits.
    """

    def __init__(self, user: str, password: str, uri: str, make_nonce: Callable[[], str]) -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._nonce = make_nonce()
        self._expected: str | None = None

    def respond(self, challenge: bytes) -> bytes | None:
        """Answer the server; None once it has proved that it knows the password as well.

        Raises:
            AuthenticationError: the server violates DIGEST-MD5, or does not know the password.
        """
        directives = _parse(challenge)
        if self._expected is not None:
            proof = directives.get("rspauth", "")
            if not hmac.compare_digest(proof.encode(), self._expected.encode()):
                raise AuthenticationError("the server has not proved that it knows the password")
            return None
        if directives.get("algorithm") != "md5-sess" or "nonce" not in directives:
            raise AuthenticationError("the server's challenge is not one of DIGEST-MD5")
        offered = [each.strip() for each in directives.get("qop", "auth").split(",")]
        if "auth" not in offered:
            raise AuthenticationError("the server demands encryption by SASL, which is not served: use TLS")
        realm, nonce = directives.get("realm", ""), directives["nonce"]
        self._expected = self._digest(realm, nonce, "")
        fields = [
            "charset=utf-8",
            f"username={_quote(self._user)}",
            f"realm={_quote(realm)}",
            f"nonce={_quote(nonce)}",
            f"nc={_NONCE_COUNT}",
            f"cnonce={_quote(self._nonce)}",
            f"digest-uri={_quote(self._uri)}",
            "maxbuf=65536",
            f"response={self._digest(realm, nonce, 'AUTHENTICATE')}",
            "qop=auth",
        ]
        return ",".join(fields).encode()

    def _digest(self, realm: str, nonce: str, method: str) -> str:
        secret = _md5(b":".join(_octets(part) for part in (self._user, realm, self._password))).digest()
        session = _md5(secret + f":{nonce}:{self._nonce}".encode()).hexdigest()
        request = _md5(f"{method}:{self._uri}".encode()).hexdigest()
        text = f"{session}:{nonce}:{_NONCE_COUNT}:{self._nonce}:auth:{request}"
        return _md5(text.encode()).hexdigest()


def _md5(data: bytes) -> "hashlib._Hash":
    return hashlib.md5(data, usedforsecurity=False)


def _octets(text: str) -> bytes:
    """Return the bytes of a name or a password that are hashed: ISO 8859-1 where it suffices, as the RFC requires."""
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode()


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _parse(challenge: bytes) -> Mapping[str, str]:
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("the server's challenge is not one of DIGEST-MD5") from None
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise AuthenticationError("the server's challenge is not one of DIGEST-MD5")
        position = match.end()
        name, quoted, bare = match.groups()
        found[name.lower()] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return found
