"""The client's side of SASL: the messages of each mechanism, and the requests that carry them.

`authenticate` is a generator, so that a blocking client, an asynchronous one and a broker that dials another
all drive the same exchange: it yields the frames to send and is sent the frames received.
"""

import base64
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from security.errors import AuthenticationError, SecurityConfigError
from security.jaas import JaasEntry
from security.scram import ScramClient, ScramMechanism
from wire.apis import ApiKey
from wire.errors import Error
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
"""The mechanisms that are served; GSSAPI (Kerberos) is not."""
_AUTHENTICATE_MAX: Final = 2


class SaslClient(Protocol):
    """One exchange of one mechanism."""

    def first(self) -> bytes:
        """Return the first message."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to a challenge; None where the exchange is complete.

        Raises:
            AuthenticationError: the server refused us, or did not prove itself.
        """
        ...


class PlainClient:
    """PLAIN (RFC 4616): user and password in one message; the server's answer is empty."""

    __slots__ = ("_password", "_username")

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password

    def first(self) -> bytes:
        """Return the only message."""
        return f"\0{self._username}\0{self._password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:  # noqa: ARG002  # a success says nothing
        """Return nothing: the exchange is complete."""
        return None


class OauthBearerClient:
    """OAUTHBEARER (RFC 7628): a bearer token in one message."""

    __slots__ = ("_extensions", "_token")

    def __init__(self, token: str, extensions: dict[str, str] | None = None) -> None:
        self._token = token
        self._extensions = extensions or {}

    def first(self) -> bytes:
        """Return the message with the token."""
        pairs = {"auth": f"Bearer {self._token}"} | self._extensions
        return ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01").encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the byte that a refused client has to send; None where the token was accepted."""
        return b"\x01" if challenge else None


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """A client's credentials for one mechanism.

    Attributes:
        mechanism: One of `MECHANISMS`.
        make: Begins one exchange.
    """

    mechanism: str
    make: Callable[[], SaslClient] = field(repr=False)


Exchange: TypeAlias = Generator[bytes | bytearray, memoryview | bytes, int]


def authenticate(
    credentials: SaslCredentials, client_id: str | None, *, asks_versions: bool = True
) -> Exchange:
    """Authenticate one connection.

    Args:
        credentials: Our credentials.
        client_id: The client id of our requests.
        asks_versions: Whether to begin with ApiVersions; a second authentication of a connection does not.

    Yields:
        A frame to send, its length in front; the caller sends in the answer's payload, without its length.

    Returns:
        The lifetime of the session in milliseconds; 0 where it has no end.

    Raises:
        AuthenticationError: the broker refused us; the connection is to be closed.
        wire.errors.RemoteProtocolError: the answer is malformed.
    """
    version = 1
    if asks_versions:
        answer = yield encode_request(ApiVersionsRequest(), 0, 0, client_id)
        _, versions = decode_response(ApiVersionsResponse, 0, answer)
        offered = {each.api_key: each.max_version for each in versions.api_keys}
        if ApiKey.SASL_AUTHENTICATE not in offered:
            raise AuthenticationError("the broker serves no SaslAuthenticate")
        version = min(_AUTHENTICATE_MAX, offered[ApiKey.SASL_AUTHENTICATE])
    answer = yield encode_request(SaslHandshakeRequest(mechanism=credentials.mechanism), 1, 1, client_id)
    _, shake = decode_response(SaslHandshakeResponse, 1, answer)
    if shake.error_code == Error.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(shake.mechanisms) or "none"
        raise AuthenticationError(
            f"the broker does not enable the SASL mechanism {credentials.mechanism}; it enables {enabled}"
        )
    if shake.error_code:
        raise AuthenticationError(
            f"the broker refused the SASL handshake (error {shake.error_code}): is this a SASL listener?"
        )
    client = credentials.make()
    token: bytes | None = client.first()
    correlation_id = 2
    while token is not None:
        answer = yield encode_request(
            SaslAuthenticateRequest(auth_bytes=token), version, correlation_id, client_id
        )
        _, response = decode_response(SaslAuthenticateResponse, version, answer)
        if response.error_code:
            raise AuthenticationError(response.error_message or "the broker refused the credentials")
        correlation_id += 1
        token = client.respond(bytes(response.auth_bytes))
    return response.session_lifetime_ms


def credentials_from_jaas(
    mechanism: str,
    entry: JaasEntry,
    new_nonce: Callable[[], str],
    wall_ms: Callable[[], int],
    key: str = "sasl.jaas.config",
) -> SaslCredentials:
    """Return the credentials that a JAAS entry holds for a mechanism.

    Args:
        mechanism: The mechanism, of `MECHANISMS`.
        entry: The login module; its class must be the mechanism's.
        new_nonce: Makes the nonce of one SCRAM exchange.
        wall_ms: The wall clock, for the tokens of OAUTHBEARER without a server.
        key: The setting that the entry came from, for the errors.

    Raises:
        SecurityConfigError: the mechanism is not served, or the entry is not for it.
    """
    if mechanism not in MECHANISMS:
        raise SecurityConfigError(
            "sasl.mechanism", f"{mechanism} is not served; expected one of {', '.join(MECHANISMS)}"
        )
    expected = _MODULES[mechanism]
    if entry.module not in expected:
        raise SecurityConfigError(
            key, f"expected the login module {expected[0]} for {mechanism}, not {entry.module}"
        )
    options = entry.options
    if mechanism == OAUTHBEARER:
        return SaslCredentials(mechanism, _oauth_client(options, wall_ms, key))
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise SecurityConfigError(key, f"the option {missing[0]} is missing")
    username, password = options["username"], options["password"]
    if mechanism == PLAIN:
        return SaslCredentials(mechanism, lambda: PlainClient(username, password))
    extensions = {"tokenauth": "true"} if options.get("tokenauth", "").lower() == "true" else {}
    scram = ScramMechanism(mechanism)
    return SaslCredentials(mechanism, lambda: ScramClient(scram, username, password, new_nonce(), extensions))


def unsecured_token(subject: str, scopes: list[str], issued_ms: int, lifetime_s: int) -> str:
    """Return a JWT without signature, which proves nothing: for development."""
    claims: dict[str, object] = {
        "sub": subject,
        "iat": issued_ms // 1000,
        "exp": issued_ms // 1000 + lifetime_s,
    }
    if scopes:
        claims["scope"] = scopes
    return f"{_segment({'alg': 'none'})}.{_segment(claims)}."


def _oauth_client(
    options: Mapping[str, str], wall_ms: Callable[[], int], key: str
) -> Callable[[], SaslClient]:
    given = dict(options)
    if "token" in given:
        token = given["token"]
        return lambda: OauthBearerClient(token)
    subject = given.get("unsecuredLoginStringClaim_sub")
    if subject is None:
        raise SecurityConfigError(
            key, "expected the option unsecuredLoginStringClaim_sub, or token with a bearer token"
        )
    scopes = [scope for scope in given.get("unsecuredLoginListClaim_scope", "").split(",") if scope]
    try:
        lifetime_s = int(given.get("unsecuredLoginLifetimeSeconds", "3600"))
    except ValueError:
        raise SecurityConfigError(key, "unsecuredLoginLifetimeSeconds is no number") from None
    extensions = {
        name.removeprefix("unsecuredLoginExtension_"): value
        for name, value in given.items()
        if name.startswith("unsecuredLoginExtension_")
    }
    return lambda: OauthBearerClient(unsecured_token(subject, scopes, wall_ms(), lifetime_s), extensions)


def _segment(value: dict[str, object] | dict[str, str]) -> str:
    data = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


_PREFIX: Final = "org.apache.kafka.common.security."
_SCRAM: Final = (_PREFIX + "scram.ScramLoginModule",)
_MODULES: Final = {
    PLAIN: (_PREFIX + "plain.PlainLoginModule",),
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    OAUTHBEARER: (_PREFIX + "oauthbearer.OAuthBearerLoginModule",),
}
