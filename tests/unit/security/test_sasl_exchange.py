"""The broker's side of SASL, frame by frame, without sockets."""

import base64
import hashlib
import hmac
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.security.principal import KafkaPrincipal
from cluster.security.sasl_exchange import Answered, Authenticated, Failed, SaslExchange, SaslSettings
from cluster.security.sasl_mechanisms import PlainServer, ScramDirectory, ScramServer, TokenLogin
from cluster.statemachines.sasl import TRANSITIONS, SaslEvent, SaslState, step
from cluster.statemachines.transition import IllegalTransition
from security.errors import AuthenticationError
from security.sasl_client import PlainClient, SaslCredentials, authenticate
from security.scram import ScramClient, ScramMechanism, make_credential, salted
from wire.errors import Error
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NOW = 1_000_000
SHA_256 = ScramMechanism.SHA_256
ALICE = KafkaPrincipal("User", "alice")
CREDENTIAL = make_credential(SHA_256, "wonder=land,", b"salt", 4096)
OWNER = KafkaPrincipal("User", "owner")


def answer_versions(request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:
    if request is None:
        return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION)
    if request.client_software_name == "-":
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=36, min_version=0, max_version=2)])


def settings(**session_ms: int) -> SaslSettings:
    directory = ScramDirectory(
        find_user=lambda mechanism, user: CREDENTIAL if (mechanism, user) == (SHA_256, "alice") else None,
        find_token=lambda mechanism, token_id: (
            TokenLogin(CREDENTIAL, OWNER, NOW + 5000) if token_id == "token" else None
        ),
        secret=b"secret",
        new_nonce=lambda: "server-nonce",
    )
    return SaslSettings(
        mechanisms={
            "PLAIN": partial(PlainServer, {"alice": hashlib.sha256(b"wonder").digest()}),
            "SCRAM-SHA-256": partial(ScramServer, SHA_256, directory),
        },
        max_session_ms={name.replace("_", "-"): value for name, value in session_ms.items()},
        answer_versions=answer_versions,
        wall_ms=lambda: NOW,
    )


def frame(message, version, correlation_id=5) -> memoryview:
    return memoryview(bytes(encode_request(message, version, correlation_id, "test")))[4:]


def handshake(mechanism="PLAIN", version=1) -> memoryview:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version=2) -> memoryview:
    return frame(SaslAuthenticateRequest(auth_bytes=data), version)


def decoded(outcome, cls, version):
    assert outcome.answer is not None
    correlation_id, response = decode_response(cls, version, bytes(outcome.answer)[4:])
    assert correlation_id == 5
    return response


def run(exchange: SaslExchange, credentials: SaslCredentials):
    """Authenticate with our own client; return the server's last outcome."""
    client = authenticate(credentials, "client")
    sent = next(client)
    while True:
        outcome = exchange.receive(memoryview(bytes(sent))[4:])
        if outcome.answer is None:
            return outcome
        try:
            sent = client.send(bytes(outcome.answer)[4:])
        except (StopIteration, AuthenticationError):
            return outcome


def plain(user: str, password: str) -> SaslCredentials:
    return SaslCredentials("PLAIN", lambda: PlainClient(user, password))


def scram(user: str, password: str, **extensions: str) -> SaslCredentials:
    return SaslCredentials("SCRAM-SHA-256", lambda: ScramClient(SHA_256, user, password, "nonce", extensions))


@pytest.mark.parametrize("credentials", [plain("alice", "wonder"), scram("alice", "wonder=land,")])
def test_the_right_password(credentials: SaslCredentials) -> None:
    exchange = SaslExchange(settings())
    outcome = run(exchange, credentials)
    assert isinstance(outcome, Authenticated)
    assert (outcome.principal, outcome.session_ms) == (ALICE, None)
    assert exchange.state is SaslState.DONE


@pytest.mark.parametrize(
    "credentials",
    [
        plain("alice", "wonder "),
        plain("bob", "wonder"),
        scram("alice", "wonder"),
        scram("bob", "wonder=land,"),
        scram("alice", "wonder=land,", tokenauth="true"),
        scram("token", "wonder=land,"),
    ],
)
def test_the_wrong_user_or_password(credentials: SaslCredentials) -> None:
    outcome = run(SaslExchange(settings()), credentials)
    assert isinstance(outcome, Failed)
    response = decode_response(SaslAuthenticateResponse, 2, bytes(outcome.answer)[4:])[1]
    assert response.error_code == Error.SASL_AUTHENTICATION_FAILED
    assert "wonder" not in repr(outcome) + str(response.error_message)


def test_an_unknown_user_fails_as_a_wrong_password_does() -> None:
    answers = []
    for user, password in (("alice", "wrong"), ("stranger", "wrong")):
        exchange = SaslExchange(settings())
        exchange.receive(handshake("SCRAM-SHA-256"))
        client = ScramClient(SHA_256, user, password, "nonce")
        challenge = exchange.receive(token(client.first()))
        assert isinstance(challenge, Answered)
        final = client.respond(bytes(decoded(challenge, SaslAuthenticateResponse, 2).auth_bytes))
        outcome = exchange.receive(token(final))
        assert isinstance(outcome, Failed)
        answers.append(bytes(outcome.answer))
    assert answers[0] == answers[1]


def test_a_delegation_token_names_its_owner_and_ends_the_session() -> None:
    outcome = run(SaslExchange(settings()), scram("token", "wonder=land,", tokenauth="true"))
    assert isinstance(outcome, Authenticated)
    assert outcome.principal == OWNER
    assert outcome.principal.token_authenticated
    assert outcome.session_ms == 5000


def test_a_session_has_the_shorter_end() -> None:
    outcome = run(SaslExchange(settings(PLAIN=3000)), plain("alice", "wonder"))
    assert isinstance(outcome, Authenticated)
    assert outcome.session_ms == 3000
    response = decode_response(SaslAuthenticateResponse, 2, bytes(outcome.answer)[4:])[1]
    assert response.session_lifetime_ms == 3000


def test_bare_tokens_after_handshake_version_0() -> None:
    exchange = SaslExchange(settings())
    exchange.receive(handshake(version=0))
    outcome = exchange.receive(memoryview(b"\0alice\0wonder"))
    assert isinstance(outcome, Authenticated)
    assert bytes(outcome.answer) == bytes(4)
    assert not outcome.is_told


def test_a_bare_refusal_says_nothing() -> None:
    exchange = SaslExchange(settings())
    exchange.receive(handshake(version=0))
    assert exchange.receive(memoryview(b"\0alice\0wrong")).answer is None


def test_versions_are_asked_once() -> None:
    exchange = SaslExchange(settings())
    versions = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    outcome = exchange.receive(versions)
    assert isinstance(outcome, Answered)
    assert outcome.software == ("a", "1")
    assert isinstance(exchange.receive(versions), Failed)


def test_versions_are_asked_again_after_an_error() -> None:
    exchange = SaslExchange(settings())
    unknown = bytearray(frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3))
    unknown[2:4] = (127).to_bytes(2, "big")
    refused = exchange.receive(memoryview(bytes(unknown)))
    assert decoded(refused, ApiVersionsResponse, 0).error_code == Error.UNSUPPORTED_VERSION
    malformed = exchange.receive(frame(ApiVersionsRequest(client_software_name="-"), 3))
    assert decoded(malformed, ApiVersionsResponse, 3).error_code == Error.INVALID_REQUEST
    assert isinstance(exchange.receive(frame(ApiVersionsRequest(), 0)), Answered)
    assert isinstance(exchange.receive(handshake()), Answered)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "X" * 30000, "PLAIN\n"])
def test_a_mechanism_that_is_not_enabled(mechanism: str) -> None:
    outcome = SaslExchange(settings()).receive(handshake(mechanism))
    assert isinstance(outcome, Failed)
    response = decoded(outcome, SaslHandshakeResponse, 1)
    assert response.error_code == Error.UNSUPPORTED_SASL_MECHANISM
    assert list(response.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert len(outcome.reason) < 200


@pytest.mark.parametrize(
    "first",
    [
        frame(MetadataRequest(), 9),
        token(b"\0alice\0wonder"),
        memoryview(b""),
        memoryview(b"\x60\x82\x02\x00\x06\x09"),
        memoryview(b"GET / HTTP/1.1\r\n\r\n"),
    ],
)
def test_nothing_is_answered_before_the_handshake(first: memoryview) -> None:
    exchange = SaslExchange(settings())
    outcome = exchange.receive(first)
    assert isinstance(outcome, Failed)
    assert outcome.answer is None
    assert exchange.state is SaslState.FAILED


def test_another_request_between_the_tokens() -> None:
    exchange = SaslExchange(settings())
    exchange.receive(handshake())
    outcome = exchange.receive(handshake())
    assert isinstance(outcome, Failed)
    assert decoded(outcome, SaslHandshakeResponse, 1).error_code == Error.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"alice\0wonder",
        b"\0alice\0wonder\0",
        b"\0\0wonder",
        b"\0alice\0",
        b"bob\0alice\0wonder",
        b"\0al\xffice\0wonder",
        b"\0alice\0" + b"x" * 500_000,
    ],
)
def test_malformed_plain_tokens(data: bytes) -> None:
    exchange = SaslExchange(settings())
    exchange.receive(handshake())
    assert isinstance(exchange.receive(token(data)), Failed)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"p=tls-unique,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,n=ali=ce,r=x",
        b"n,,n=ali=2ce,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al\0ice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"c=biws,r=nonce,p=AAAA",
        b"\xff\xff",
        b"n,,n=" + b"a" * 100_000,
    ],
)
def test_malformed_first_messages_of_scram(data: bytes) -> None:
    exchange = SaslExchange(settings())
    exchange.receive(handshake("SCRAM-SHA-256"))
    assert isinstance(exchange.receive(token(data)), Failed)


def test_a_final_message_of_another_connection_is_refused() -> None:
    client = ScramClient(SHA_256, "alice", "wonder=land,", "nonce")
    exchange = SaslExchange(settings())
    exchange.receive(handshake("SCRAM-SHA-256"))
    challenge = exchange.receive(token(client.first()))
    final = client.respond(bytes(decoded(challenge, SaslAuthenticateResponse, 2).auth_bytes))
    assert final is not None
    for changed in (
        final.replace(b"server-nonce", b"server-nonc"),
        final.replace(b"server-nonce", b"another"),
        final.replace(b"c=biws", b"c=eSws"),
        final[:-4],
        final.replace(b"c=biws,", b""),
    ):
        other = SaslExchange(settings())
        other.receive(handshake("SCRAM-SHA-256"))
        other.receive(token(client.first()))
        assert isinstance(other.receive(token(changed)), Failed)
    assert isinstance(exchange.receive(token(final)), Authenticated)


def test_the_doubled_nonce_of_older_librdkafka_is_taken() -> None:
    """Before 2.2 it sends its own nonce followed by the whole one; Debian 12's kcat is such a client."""
    exchange = SaslExchange(settings())
    exchange.receive(handshake("SCRAM-SHA-256"))
    client = ScramClient(SHA_256, "alice", "wonder=land,", "nonce")
    first = client.first()
    challenge = bytes(decoded(exchange.receive(token(first)), SaslAuthenticateResponse, 2).auth_bytes)
    without_proof = b"c=biws,r=nonce" + challenge[2:].partition(b",")[0]
    assert without_proof == b"c=biws,r=noncenonceserver-nonce"
    key = salted(SHA_256, "wonder=land,", b"salt", 4096)
    client_key = hmac.digest(key, b"Client Key", "sha256")
    message = b",".join((first.removeprefix(b"n,,"), challenge, without_proof))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = without_proof + b",p=" + base64.b64encode(proof)
    assert isinstance(exchange.receive(token(final)), Authenticated)


def again(mechanism: str, credentials_token: bytes, principal: KafkaPrincipal = ALICE):
    exchange = SaslExchange(settings(PLAIN=3000), ("PLAIN", principal))
    outcome = exchange.receive(handshake(mechanism))
    assert isinstance(outcome, Answered)
    return exchange.receive(token(credentials_token))


def test_authenticating_again() -> None:
    assert isinstance(again("PLAIN", b"\0alice\0wonder"), Authenticated)
    assert isinstance(again("PLAIN", b"\0alice\0wonder", KafkaPrincipal("User", "bob")), Failed)
    assert isinstance(again("SCRAM-SHA-256", b"n,,n=alice,r=x"), Failed)
    assert isinstance(
        SaslExchange(settings(), ("PLAIN", ALICE)).receive(frame(ApiVersionsRequest(), 0)), Failed
    )


@pytest.mark.parametrize("state", list(SaslState))
@pytest.mark.parametrize("event", list(SaslEvent))
def test_what_the_table_does_not_name_is_illegal(state: SaslState, event: SaslEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert step(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition):
            step(state, event)


FRAMES = st.one_of(
    st.binary(max_size=64),
    st.binary(max_size=64).map(lambda data: bytes(token(data))),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "x"]).map(lambda name: bytes(handshake(name))),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256"]).map(lambda name: bytes(handshake(name, 0))),
    st.sampled_from([bytes(frame(ApiVersionsRequest(), 0)), bytes(frame(MetadataRequest(), 1))]),
    st.tuples(st.sampled_from([17, 18, 36]), st.integers(-2, 5), st.binary(max_size=20)).map(
        lambda parts: parts[0].to_bytes(2, "big") + parts[1].to_bytes(2, "big", signed=True) + parts[2]
    ),
)


@given(st.lists(FRAMES, max_size=8))
def test_arbitrary_frames_neither_raise_nor_authenticate(frames: list[bytes]) -> None:
    exchange = SaslExchange(settings())
    for each in frames:
        if exchange.state in (SaslState.DONE, SaslState.FAILED):
            break
        assert not isinstance(exchange.receive(memoryview(each)), Authenticated)
