"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677) as Kafka uses them: credentials and the client's side.

    SaltedPassword = PBKDF2(H, password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")        StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")
    AuthMessage    = client-first-bare "," server-first "," client-final-without-proof
    ClientProof    = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(ServerKey, AuthMessage)

Kafka does without channel binding and SASLprep: a password is its UTF-8 bytes.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from security.errors import AuthenticationError

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""The iterations that a stored credential may have."""
_CLIENT_ITERATIONS_MAX: Final = 10_000_000
"""The most iterations that our client computes for a server: more would look like an attack on its CPU."""


class ScramMechanism(Enum):
    """A mechanism by its name; Kafka's requests number them."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        """The hash function, as hashlib names it."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def code(self) -> int:
        """The number in AlterUserScramCredentials."""
        return 1 if self is ScramMechanism.SHA_256 else 2

    @property
    def digest_size(self) -> int:
        """The size of keys, proofs and signatures in bytes."""
        return 32 if self is ScramMechanism.SHA_256 else 64


class CredentialFormatError(ValueError):
    """A stored credential cannot be read. The text holds no part of it."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password.

    Attributes:
        iterations: The rounds of PBKDF2.
        salt: Its salt.
        stored_key: Verifies the client's proof.
        server_key: Proves the server.
    """

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def to_text(self) -> str:
        """Return the credential as Kafka keeps it in ``/config/users``."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def credential_of(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        iterations,
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
    )


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return SaltedPassword; 4,096 iterations take about 2 ms."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def make_credential(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a password."""
    return credential_of(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def parse_credential(mechanism: ScramMechanism, text: str) -> ScramCredential:
    """Read a credential as Kafka keeps it.

    Raises:
        CredentialFormatError: a part is missing, of another size or not base64, or the iterations are too few.
    """
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(parts["iterations"])
    except (KeyError, ValueError):
        raise CredentialFormatError(f"a {mechanism.value} credential is malformed") from None
    if {len(stored_key), len(server_key)} != {mechanism.digest_size} or not salt:
        raise CredentialFormatError(f"a {mechanism.value} credential has keys of the wrong size")
    if not ITERATIONS_MIN <= iterations < 1 << 31:
        raise CredentialFormatError(f"a {mechanism.value} credential has {iterations} iterations")
    return ScramCredential(iterations, salt, stored_key, server_key)


def escape_name(name: str) -> str:
    """Return a user name as a SCRAM message carries it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def attributes_of(message: bytes) -> dict[str, str]:
    """Read ``k=v,k=v``.

    Raises:
        ValueError: it is not UTF-8, or an attribute lacks its name.
    """
    found: dict[str, str] = {}
    for part in message.decode().split(","):
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise ValueError("an attribute is not name=value")
        found.setdefault(name, value)
    return found


class ScramClient:
    """The client's side of one exchange: `first`, then `respond` to each challenge of the server.

    Args:
        mechanism: The mechanism, which decides the hash.
        username: The user.
        password: The password.
        nonce: Fresh randomness, printable and without commas.
        extensions: Attributes such as ``tokenauth=true``, which says that the user is a delegation token.
    """

    __slots__ = (
        "_extensions",
        "_first_bare",
        "_mechanism",
        "_nonce",
        "_password",
        "_signature",
        "_username",
        "done",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._username = username
        self._password = password
        self._nonce = nonce
        self._extensions = dict(extensions or {})
        self._first_bare = b""
        self._signature: bytes | None = None
        self.done = False

    def first(self) -> bytes:
        """Return the first message."""
        extensions = "".join(f",{name}={value}" for name, value in self._extensions.items())
        self._first_bare = f"n={escape_name(self._username)},r={self._nonce}{extensions}".encode()
        return b"n,," + self._first_bare

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge; None where the server has proved itself and nothing follows.

        Raises:
            AuthenticationError: the server refused us, or is not the one that knows our password.
        """
        try:
            found = attributes_of(challenge)
            if "e" in found:
                raise AuthenticationError(f"the server refused the SCRAM exchange: {found['e']}")
            if self._signature is None:
                return self._final(found, challenge)
            proof = base64.b64decode(found["v"], validate=True)
        except (KeyError, ValueError, binascii.Error):
            raise AuthenticationError("the server's SCRAM message is malformed") from None
        if not hmac.compare_digest(proof, self._signature):
            raise AuthenticationError("the server could not prove that it knows the password's keys")
        self.done = True
        return None

    def _final(self, found: Mapping[str, str], challenge: bytes) -> bytes:
        nonce, salt, iterations = found["r"], base64.b64decode(found["s"], validate=True), int(found["i"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("the server's SCRAM nonce does not extend ours")
        if not ITERATIONS_MIN <= iterations <= _CLIENT_ITERATIONS_MAX:
            raise AuthenticationError(f"the server asks for {iterations} SCRAM iterations")
        name = self._mechanism.hash_name
        key = salted(self._mechanism, self._password, salt, iterations)
        client_key = hmac.digest(key, b"Client Key", name)
        stored_key = hashlib.new(name, client_key).digest()
        without_proof = f"c=biws,r={nonce}".encode()
        message = b",".join((self._first_bare, challenge, without_proof))
        signature = hmac.digest(stored_key, message, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(key, b"Server Key", name), message, name)
        return without_proof + b",p=" + base64.b64encode(proof)
