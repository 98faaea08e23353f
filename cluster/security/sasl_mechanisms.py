"""The broker's side of each SASL mechanism: tokens in, a challenge or a principal out.

A mechanism raises `SaslRefusal` with a text only if the client is allowed to read it; every other failure gets the same
generic sentence, so that an answer never says why.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from cluster.security.principal import USER_TYPE, KafkaPrincipal
from security.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, attributes_of

WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"
"""Kafka's text for PLAIN, the same for an unknown user and for a wrong password."""
SALT_SIZE: Final = 20


class SaslRefusal(Exception):
    """The peer cannot be authenticated.

    Attributes:
        client_text: The sentence for the client; None for the generic one.
        user: The user name that it claimed, if any.
    """

    def __init__(self, reason: str, *, client_text: str | None = None, user: str = "") -> None:
        super().__init__(reason)
        self.client_text = client_text
        self.user = user


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: send this token, and wait for the next."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proven:
    """The exchange is complete.

    Attributes:
        principal: The peer's identity.
        token: The last token for the peer; often empty.
        expires_ms: When the credential expires, on the wall clock; None if it does not.
    """

    principal: KafkaPrincipal
    token: bytes = field(default=b"", repr=False)
    expires_ms: int | None = None


class SaslServer(Protocol):
    """One exchange of one mechanism."""

    def evaluate(self, token: bytes) -> Challenge | Proven:
        """Evaluate a token of the peer.

        Raises:
            SaslRefusal: the peer cannot be authenticated.
        """
        ...


class PlainServer:
    """PLAIN (RFC 4616): ``[authorization id] NUL user NUL password``.

    Args:
        passwords: The SHA-256 of each user's password.
    """

    __slots__ = ("_passwords",)

    def __init__(self, passwords: Mapping[str, bytes]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> Challenge | Proven:
        """Check the only token."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslRefusal("the PLAIN token is not UTF-8") from None
        if len(parts) != 3:
            raise SaslRefusal(f"a PLAIN token has three parts, not {len(parts)}")
        authorization_id, user, password = parts
        if not user or not password:
            raise SaslRefusal("the PLAIN token lacks the user or the password", user=user)
        # The unknown user costs the same comparison as the known one.
        known = self._passwords.get(user, _NO_PASSWORD)
        if not hmac.compare_digest(known, hashlib.sha256(password.encode()).digest()):
            raise SaslRefusal("wrong user or password", client_text=WRONG_PASSWORD, user=user)
        if authorization_id not in ("", user):
            raise SaslRefusal(
                "it asks to act for another user",
                client_text="Authentication failed: the authorization id differs from the user name",
                user=user,
            )
        return Proven(KafkaPrincipal(USER_TYPE, user))


_NO_PASSWORD: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A delegation token as a SCRAM user.

    Attributes:
        credential: The SCRAM credential derived from the token's HMAC.
        owner: The principal that the login acts as.
        expires_ms: When the token expires, on the wall clock.
    """

    credential: ScramCredential
    owner: KafkaPrincipal
    expires_ms: int


@dataclass(frozen=True, slots=True)
class ScramDirectory:
    """The users and tokens that a SCRAM mechanism can find.

    Attributes:
        find_user: Returns the credential of a user.
        find_token: Returns the login of a delegation token, by its id.
        secret: A secret of this process, from which the salts of users that do not exist are made.
        new_nonce: Makes the broker's part of a nonce.
    """

    find_user: Callable[[ScramMechanism, str], ScramCredential | None]
    find_token: Callable[[ScramMechanism, str], TokenLogin | None]
    secret: bytes = field(repr=False)
    new_nonce: Callable[[], str]


class ScramServer:
    """SCRAM (RFC 5802) for users and, with ``tokenauth=true``, for delegation tokens.

    A user that does not exist gets a salt of its own and fails at the proof, as with a wrong password: steps, texts,
    iterations and time are the same.
    """

    __slots__ = (
        "_credential",
        "_directory",
        "_expires_ms",
        "_first",
        "_mechanism",
        "_nonce",
        "_principal",
        "_user",
    )

    def __init__(self, mechanism: ScramMechanism, directory: ScramDirectory) -> None:
        self._mechanism = mechanism
        self._directory = directory
        self._first: tuple[bytes, bytes, bytes] | None = None  # gs2 header, client-first-bare, server-first
        self._nonce = ""
        self._user = ""
        self._credential: ScramCredential | None = None
        self._principal: KafkaPrincipal | None = None
        self._expires_ms: int | None = None

    def evaluate(self, token: bytes) -> Challenge | Proven:
        """Evaluate the client's first message, then its final one."""
        if self._first is None:
            return self._challenge(token)
        return self._prove(token, *self._first)

    def _challenge(self, token: bytes) -> Challenge:
        try:
            match = _CLIENT_FIRST.fullmatch(token.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise SaslRefusal("the SCRAM client-first message is malformed")
        user = _plain_name(match["user"])
        authorization_id = _plain_name(match["authzid"] or "")
        if authorization_id not in ("", user):
            raise SaslRefusal("it asks to act for another user", user=user)
        extensions = dict(part.partition("=")[::2] for part in match["extensions"].split(",")[1:])
        self._user = user
        self._look_up(user, by_token=extensions.get("tokenauth", "").lower() == "true")
        credential = self._credential or self._decoy(user)
        self._credential = credential
        self._nonce = match["nonce"] + self._directory.new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._first = (match["gs2"].encode(), match["bare"].encode(), challenge)
        return Challenge(challenge)

    def _look_up(self, user: str, *, by_token: bool) -> None:
        if by_token:
            login = self._directory.find_token(self._mechanism, user)
            if login is not None:
                self._credential = login.credential
                self._principal = KafkaPrincipal(login.owner.type, login.owner.name, token_authenticated=True)
                self._expires_ms = login.expires_ms
            return
        self._credential = self._directory.find_user(self._mechanism, user)
        if self._credential is not None:
            self._principal = KafkaPrincipal(USER_TYPE, user)

    def _decoy(self, user: str) -> ScramCredential:
        """Return a credential that no proof matches, always the same for a name."""
        salt = hmac.digest(self._directory.secret, user.encode(), "sha256")[:SALT_SIZE]
        size = self._mechanism.digest_size
        return ScramCredential(ITERATIONS_MIN, salt, bytes(size), bytes(size))

    def _prove(self, token: bytes, gs2: bytes, first_bare: bytes, server_first: bytes) -> Proven:
        credential, name = self._credential, self._mechanism.hash_name
        assert credential is not None
        without_proof, _, _ = token.rpartition(b",p=")
        try:
            found = attributes_of(token)
            proof = base64.b64decode(found["p"], validate=True)
            binding = base64.b64decode(found["c"], validate=True)
            nonce = found["r"]
        except (KeyError, ValueError):
            raise SaslRefusal("the SCRAM client-final message is malformed", user=self._user) from None
        if not token.startswith(b"c=") or binding != gs2 or len(proof) != self._mechanism.digest_size:
            raise SaslRefusal("the SCRAM client-final message does not fit the first", user=self._user)
        # librdkafka before 2.2 repeats its own nonce in front of the whole nonce. The proof covers what was sent, and
        # the broker's part is fresh, so this weakens nothing; Kafka checks only the end, too.
        if not hmac.compare_digest(nonce[-len(self._nonce) :].encode(), self._nonce.encode()):
            raise SaslRefusal("the SCRAM nonce is not ours", user=self._user)
        message = b",".join((first_bare, server_first, without_proof))
        signature = hmac.digest(credential.stored_key, message, name)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        matches = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        server_signature = hmac.digest(credential.server_key, message, name)
        if not matches or self._principal is None:
            raise SaslRefusal("wrong user or password", user=self._user)
        return Proven(self._principal, b"v=" + base64.b64encode(server_signature), self._expires_ms)


_CLIENT_FIRST: Final = re.compile(
    r"(?P<gs2>n,(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>(?:m=[^,]*,)?n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)


def _plain_name(escaped: str) -> str:
    """Undo ``=2C`` and ``=3D``.

    Raises:
        SaslRefusal: it contains another equals sign, or a NUL.
    """
    name = escaped.replace("=2C", ",").replace("=3D", "=")
    if escaped.count("=") != escaped.count("=2C") + escaped.count("=3D") or "\0" in name:
        raise SaslRefusal("the SCRAM user name is malformed")
    return name


@dataclass(frozen=True, slots=True)
class BearerIdentity:
    """The principal that a valid bearer token names, and until when."""

    name: str
    expires_ms: int


class BearerTokenError(Exception):
    """A bearer token is not valid; the text is for the log and contains no part of the token."""


class OauthBearerServer:
    """OAUTHBEARER (RFC 7628).

    Args:
        validate: Checks a token.
    """

    __slots__ = ("_refused", "_validate")

    def __init__(self, validate: Callable[[str], BearerIdentity]) -> None:
        self._validate = validate
        self._refused: str | None = None

    def evaluate(self, token: bytes) -> Challenge | Proven:
        """Evaluate the token; after a refusal, accept the byte by which the client acknowledges it."""
        if self._refused is not None:
            reason, self._refused = self._refused, ""
            raise SaslRefusal(reason, client_text=_INVALID_TOKEN)
        try:
            match = _BEARER.fullmatch(token.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise SaslRefusal("the OAUTHBEARER message is malformed")
        extensions = [pair.partition("=")[::2] for pair in match["extensions"].split("\x01") if pair]
        if any(name == "auth" for name, _ in extensions):
            raise SaslRefusal("an OAUTHBEARER extension is called auth")
        try:
            identity = self._validate(match["token"])
        except BearerTokenError as error:
            self._refused = str(error)
            return Challenge(_INVALID_TOKEN.encode())
        if match["authzid"] and match["authzid"] != identity.name:
            raise SaslRefusal("it asks to act for another user", user=identity.name)
        return Proven(KafkaPrincipal(USER_TYPE, identity.name), expires_ms=identity.expires_ms)


_INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
_BEARER: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01auth=[Bb]earer (?P<token>[-A-Za-z0-9._~+/]+=*)\x01"
    r"(?P<extensions>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
