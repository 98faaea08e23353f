"""One authentication of one connection, without I/O: frames in, answers and a verdict out.

The frames that may come, and in which order, are the table of `cluster.statemachines.sasl`. A frame that the table does
not allow ends the exchange; nothing here raises for what a peer sends.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cluster.security.principal import KafkaPrincipal
from cluster.security.sasl_mechanisms import Challenge, Proven, SaslRefusal, SaslServer
from cluster.statemachines.sasl import SaslEvent, SaslState, step
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error, RemoteProtocolError
from wire.frames import RequestHeader, decode_request, decode_request_header, encode_response
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wire.schema import Response

AnswerVersions: TypeAlias = Callable[[ApiVersionsRequest | None, int], ApiVersionsResponse]
"""Answers ApiVersions in a version; for one that we do not serve the request is None."""
API_VERSIONS_MAX: Final = 4
SHOWN_TEXT: Final = 64
"""How much untrusted text is shown in a log line."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The exchange goes on after this answer; `software` is the client's software from ApiVersions."""

    answer: bytes | bytearray = field(repr=False)
    software: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The peer proved its identity.

    Attributes:
        answer: The last answer.
        principal: The peer's identity.
        session_ms: For how many milliseconds from now it may send requests; None for ever.
        is_told: Whether the client knows when its session ends (SaslAuthenticate 1 and later).
    """

    answer: bytes | bytearray = field(repr=False)
    principal: KafkaPrincipal
    session_ms: int | None
    is_told: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection is to be closed after the answer, with a delay.

    Attributes:
        answer: What to send before the close; None for nothing.
        reason: For the log.
        user: The user name that the peer claimed.
    """

    answer: bytes | bytearray | None = field(repr=False)
    reason: str
    user: str = ""


Outcome: TypeAlias = Answered | Authenticated | Failed


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The SASL settings of a listener.

    Attributes:
        mechanisms: What begins an exchange, by mechanism, in the order in which they are offered.
        max_session_ms: ``connections.max.reauth.ms`` of each mechanism; 0 for no end.
        answer_versions: Answers ApiVersions.
        wall_ms: The wall clock.
    """

    mechanisms: Mapping[str, Callable[[], SaslServer]]
    max_session_ms: Mapping[str, int]
    answer_versions: AnswerVersions
    wall_ms: Callable[[], int]


class SaslExchange:
    """One authentication.

    Args:
        settings: The listener's.
        again: The mechanism and the principal of the first authentication, if this is a second one.

    Attributes:
        state: What the broker waits for.
        mechanism: The mechanism that was chosen; empty before.
    """

    __slots__ = ("_again", "_server", "_settings", "mechanism", "state")

    def __init__(self, settings: SaslSettings, again: tuple[str, KafkaPrincipal] | None = None) -> None:
        self._settings = settings
        self._again = again
        self._server: SaslServer | None = None
        self.state = SaslState.INITIAL if again is None else SaslState.HANDSHAKE
        self.mechanism = ""

    def receive(self, frame: memoryview) -> Outcome:
        """Handle a frame of the peer; only while `state` is not DONE or FAILED."""
        if self.state is SaslState.BARE_TOKENS:
            return self._evaluate(bytes(frame), None)
        try:
            header, _ = decode_request_header(frame)
            match ApiKey(header.api_key):
                case ApiKey.API_VERSIONS if self.state is SaslState.INITIAL:
                    return self._answer_versions(header, frame)
                case ApiKey.SASL_HANDSHAKE if self.state in (SaslState.INITIAL, SaslState.HANDSHAKE):
                    return self._shake_hands(frame)
                case ApiKey.SASL_AUTHENTICATE if self.state is SaslState.TOKENS:
                    return self._authenticate(frame)
                case key:
                    return self._refuse(
                        illegal_state_answer(header)
                        if self.state is SaslState.TOKENS or self._again
                        else None,
                        f"{key.name} came where {self.state.value} is expected",
                    )
        except RemoteProtocolError as error:
            return self._refuse(None, f"no SASL request: {error}")

    def _answer_versions(self, header: RequestHeader, frame: memoryview) -> Outcome:
        version = header.api_version
        if not 0 <= version <= API_VERSIONS_MAX:
            self.state = step(self.state, SaslEvent.VERSIONS_REFUSED)
            response = self._settings.answer_versions(None, version)
            return Answered(_encoded(response, 0, header))
        _, request = decode_request(frame)
        assert isinstance(request, ApiVersionsRequest)
        response = self._settings.answer_versions(request, version)
        refused = response.error_code != Error.NONE
        self.state = step(self.state, SaslEvent.VERSIONS_REFUSED if refused else SaslEvent.VERSIONS_ANSWERED)
        software = None if refused else (request.client_software_name, request.client_software_version)
        return Answered(_encoded(response, version, header), software)

    def _shake_hands(self, frame: memoryview) -> Outcome:
        header, request = decode_request(frame)
        assert isinstance(request, SaslHandshakeRequest)
        offered = list(self._settings.mechanisms)
        make = self._settings.mechanisms.get(request.mechanism)
        if make is None:
            response = SaslHandshakeResponse(error_code=Error.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
            return self._refuse(
                _encoded(response, header.api_version, header),
                f"the SASL mechanism {request.mechanism[:SHOWN_TEXT]!r} is not enabled",
            )
        self.mechanism = request.mechanism
        self._server = make()
        self.state = step(
            self.state,
            SaslEvent.BARE_MECHANISM_CHOSEN if header.api_version == 0 else SaslEvent.MECHANISM_CHOSEN,
        )
        response = SaslHandshakeResponse(error_code=Error.NONE, mechanisms=offered)
        return Answered(_encoded(response, header.api_version, header))

    def _authenticate(self, frame: memoryview) -> Outcome:
        header, request = decode_request(frame)
        assert isinstance(request, SaslAuthenticateRequest)
        return self._evaluate(bytes(request.auth_bytes), header)

    def _evaluate(self, token: bytes, header: RequestHeader | None) -> Outcome:
        """Have the mechanism evaluate a token, which came in a request or bare, without a header."""
        server = self._server
        assert server is not None
        try:
            if self._again is not None and self._again[0] != self.mechanism:
                raise SaslRefusal(f"it authenticated by {self._again[0]} before, and now by {self.mechanism}")
            verdict = server.evaluate(token)
            if isinstance(verdict, Proven):
                return self._proven(verdict, header)
        except SaslRefusal as refusal:
            text = refusal.client_text or f"Authentication failed: invalid credentials for {self.mechanism}"
            answer = (
                None if header is None else _token_answer(header, b"", Error.SASL_AUTHENTICATION_FAILED, text)
            )
            return self._refuse(answer, str(refusal), refusal.user[:SHOWN_TEXT])
        assert isinstance(verdict, Challenge)
        self.state = step(self.state, SaslEvent.CHALLENGED)
        return Answered(_bare(verdict.token) if header is None else _token_answer(header, verdict.token))

    def _proven(self, verdict: Proven, header: RequestHeader | None) -> Outcome:
        """Return the answer that says that the peer is authenticated, and for how long.

        Raises:
            SaslRefusal: the principal is not that of the first authentication.
        """
        if self._again is not None and verdict.principal != self._again[1]:
            raise SaslRefusal(
                f"it authenticated as {self._again[1]} before, and now as {verdict.principal}",
                user=verdict.principal.name,
            )
        self.state = step(self.state, SaslEvent.PROVEN)
        session_ms = self._session_ms(verdict.expires_ms)
        if header is None:
            answer: bytes | bytearray = _bare(verdict.token)
        else:
            answer = _token_answer(header, verdict.token, session_ms=session_ms or 0)
        return Authenticated(
            answer, verdict.principal, session_ms, is_told=header is not None and header.api_version >= 1
        )

    def _session_ms(self, expires_ms: int | None) -> int | None:
        limits = []
        if self._settings.max_session_ms.get(self.mechanism, 0) > 0:
            limits.append(self._settings.max_session_ms[self.mechanism])
        if expires_ms is not None:
            limits.append(max(0, expires_ms - self._settings.wall_ms()))
        return min(limits) if limits else None

    def _refuse(self, answer: bytes | bytearray | None, reason: str, user: str = "") -> Failed:
        self.state = step(self.state, SaslEvent.REFUSED)
        return Failed(answer, reason, user)


def _encoded(response: Response, version: int, header: RequestHeader) -> bytearray:
    frame = encode_response(response, version, header.correlation_id)
    assert isinstance(frame, bytearray)
    return frame


def _bare(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def _token_answer(
    header: RequestHeader, token: bytes, code: int = Error.NONE, text: str | None = None, session_ms: int = 0
) -> bytearray:
    response = SaslAuthenticateResponse(
        error_code=code, error_message=text, auth_bytes=token, session_lifetime_ms=session_ms
    )
    return _encoded(response, header.api_version, header)


def illegal_state_answer(header: RequestHeader) -> bytearray | None:
    """Return ILLEGAL_SASL_STATE in the response of a request's own API; None if that version cannot carry it."""
    api = API_TABLE[header.api_key]
    if not api.min_version <= header.api_version <= api.max_version:
        return None
    fields: dict[str, Any] = {"error_code": Error.ILLEGAL_SASL_STATE}
    try:
        return _encoded(api.response(**fields), header.api_version, header)
    except (TypeError, ValueError):
        return None
