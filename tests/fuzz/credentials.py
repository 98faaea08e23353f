"""What a stranger can present instead of a password: bearer tokens and certificates."""

import base64
import json
from collections.abc import Callable, Sequence
from functools import partial

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cluster.security.bearer_tokens import SignedRules, UnsecuredRules, validate_signed, validate_unsecured
from cluster.security.sasl_exchange import Authenticated, Failed, SaslExchange, SaslSettings
from cluster.security.sasl_mechanisms import BearerIdentity, OauthBearerServer
from security.der import DerError
from security.distinguished_name import NAME_BYTES_MAX, subject_of
from security.sasl_client import OauthBearerClient, unsecured_token
from tests.fuzz.target import Finding, Target
from wire.frames import encode_request
from wire.messages.api_versions import ApiVersionsResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
NAMES = {"alice", "bob"}
"""The names in honest tokens. The unsigned ones prove nothing, so mutation can make others."""


class NoKeys:
    """A key set whose keys have signed nothing."""

    def verify(self, kid: str, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Refuse every signature."""
        return kid == algorithm == "" and signed == signature == b"no"


def _exchange(validate: Callable[[str], BearerIdentity]) -> SaslSettings:
    return SaslSettings(
        mechanisms={"OAUTHBEARER": partial(OauthBearerServer, validate)},
        max_session_ms={},
        answer_versions=lambda request, version: ApiVersionsResponse(api_keys=[]),
        wall_ms=lambda: NOW_MS,
    )


UNSIGNED = _exchange(lambda token: validate_unsecured(token, UnsecuredRules(), NOW_MS))
SIGNED = _exchange(lambda token: validate_signed(token, SignedRules(), NoKeys(), NOW_MS))


def log_in(tokens: Sequence[bytes]) -> None:
    """Send tokens to a listener that takes unsigned ones, and to one that demands a signature that no token has."""
    for settings in (UNSIGNED, SIGNED):
        exchange = SaslExchange(settings)
        exchange.receive(memoryview(HANDSHAKE))
        for token in tokens:
            request = encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 5, "fuzz")
            outcome = exchange.receive(memoryview(request)[4:])
            if isinstance(outcome, Authenticated):
                if settings is SIGNED:
                    raise Finding("a token without a signature was taken")
                outcome.principal.name.encode()  # it becomes part of answers and znodes
                if outcome.session_ms is None:
                    raise Finding("the session of a token has no end")
                break
            if isinstance(outcome, Failed):
                break


HANDSHAKE = bytes(encode_request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1, 5, "fuzz"))[4:]


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def read_claims(texts: Sequence[bytes]) -> None:
    """Put mutated JSON into an unsigned token: mutations of its base64 hardly ever leave JSON behind."""
    body = base64.urlsafe_b64encode(b"".join(texts)).decode()
    log_in([OauthBearerClient(f"{_part({'alg': 'none'})}.{body}.").first()])


def read_subject(certificates: Sequence[bytes]) -> None:
    """Read the name of a certificate, whatever an authority has signed."""
    for certificate in certificates:
        try:
            name = subject_of(certificate)
        except DerError:
            continue
        # An object identifier or a hexadecimal value is longer than its bytes, by a bounded factor.
        if len(name.encode()) > 8 * NAME_BYTES_MAX:
            raise Finding(f"a name of {len(name)} characters")


def _certificate() -> bytes:
    names = {"common_name": "alice", "organization_name": "Exämple, Inc.", "organization_unit_name": "dev"}
    chain = trustme.CA().issue_cert("host", **names).cert_chain_pems[0].bytes()
    return x509.load_pem_x509_certificate(chain).public_bytes(Encoding.DER)


def credential_targets() -> list[Target]:
    """Return what bearer tokens and certificates are thrown at."""
    token = unsecured_token("alice", ["a"], NOW_MS, 100)
    header = _part({"alg": "RS256", "kid": "k"})
    signed = f"{header}.{_part({'sub': 'bob', 'iat': NOW_S, 'exp': NOW_S + 99})}.c2lnbmVk"
    tokens = [
        [OauthBearerClient(token).first()],
        [OauthBearerClient(token, {"extension": "value"}).first()],
        [OauthBearerClient(signed).first(), b"\x01"],
        [b"n,a=alice" + OauthBearerClient(token).first()[2:]],
    ]
    claims = [
        {"sub": "alice", "exp": NOW_S + 100},
        {"sub": "bob", "iat": NOW_S - 1, "exp": NOW_S + 99.5, "scope": ["a", "b"], "aud": None},
        {
            "sub": "\N{GREEK SMALL LETTER ALPHA}",
            "exp": NOW_S + 1e3,
            "scope": "a b",
            "nbf": 0,
            "deep": [[[{}]]],
        },
    ]
    texts = [[json.dumps(each).encode()] for each in claims]
    return [
        Target("OAUTHBEARER", 0.1, tokens, log_in),
        Target("claims", 0.1, texts, read_claims),
        Target("certificates", 0.05, [[_certificate()]], read_subject),
    ]
