"""Bearer tokens: what is accepted, and every way in which a token can be wrong."""

import base64
import hmac
import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from cluster.security.bearer_tokens import (
    SignedRules,
    UnsecuredRules,
    validate_signed,
    validate_unsecured,
)
from cluster.security.jwks import EARLY_REFRESH_S, MISSING_IDS_MAX, JsonWebKeys, JwksError
from cluster.security.sasl_mechanisms import BearerTokenError
from security.sasl_client import unsecured_token

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
CLAIMS = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 100}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def keys(clock: Clock | None = None, url: str = "https://issuer.example/keys") -> JsonWebKeys:
    made = JsonWebKeys(
        url,
        refresh_s=3600,
        retry_s=1,
        retry_max_s=10,
        monotonic=clock or Clock(),
        offload=trio.to_thread.run_sync,
    )
    made.load(json.dumps(KeySet([RSA, EC]).as_dict(private=False)).encode())
    return made


def signed(claims: dict[str, object], key=RSA, algorithm: str = "RS256", **header: object) -> str:
    return jwt.encode({"alg": algorithm, "kid": key.kid} | header, claims, key, algorithms=[algorithm])


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256")])
def test_a_signed_token(key, algorithm: str) -> None:
    identity = validate_signed(signed(CLAIMS, key, algorithm), SignedRules(), keys(), NOW_MS)
    assert (identity.name, identity.expires_ms) == ("alice", (NOW + 100) * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 31},
        {"iat": NOW + 31},
        {"nbf": NOW + 31},
        {"exp": None},
        {"iat": None},
        {"exp": str(NOW + 100)},
        {"exp": 1e308},
        {"exp": 10**400},
        {"exp": -1},
        {"exp": True},
        {"sub": ""},
        {"sub": " "},
        {"sub": 7},
        {"aud": "anybody"},
        {"aud": ["a", "b"]},
        {"scope": ["a", "a"]},
        {"scope": [1]},
    ],
)
def test_a_claim_that_is_wrong(claims: dict[str, object]) -> None:
    token = signed({name: value for name, value in (CLAIMS | claims).items() if value is not None})
    with pytest.raises(BearerTokenError):
        validate_signed(token, SignedRules(), keys(), NOW_MS)


def test_issuer_and_audience() -> None:
    rules = SignedRules(issuer="us", audience=("kafka", "other"))
    right = CLAIMS | {"iss": "us", "aud": ["web", "kafka"]}
    assert validate_signed(signed(right), rules, keys(), NOW_MS).name == "alice"
    for wrong in ({"iss": "them"}, {"aud": "web"}, {"aud": None}, {"aud": [["kafka"]]}):
        with pytest.raises(BearerTokenError):
            validate_signed(signed(right | wrong), rules, keys(), NOW_MS)


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c.d",
        "..",
        f"{segment({'alg': 'none'})}.{segment(CLAIMS)}.",
        f"{segment({'alg': 'RS256', 'kid': 'rsa'})}.{segment(CLAIMS)}.",
        f"{segment({'alg': 'RS256', 'kid': '../rsa'})}.{segment(CLAIMS)}.AAAA",
        f"{segment({'alg': 'RS256', 'kid': 'x' * 5000})}.{segment(CLAIMS)}.AAAA",
        f"{segment({'alg': 'RS256'})}.{segment(CLAIMS)}.AAAA",
        f"{segment([])}.{segment(CLAIMS)}.AAAA",
        f"{segment({'alg': 'RS256', 'kid': 'rsa'})}.{base64.b64encode(b'[' * 10000).decode()}.AAAA",
        "x" * 100_000,
    ],
)
def test_malformed_tokens(token: str) -> None:
    with pytest.raises(BearerTokenError):
        validate_signed(token, SignedRules(), keys(), NOW_MS)


def test_the_public_key_is_no_shared_secret() -> None:
    head = f"{segment({'alg': 'HS256', 'kid': 'rsa'})}.{segment(CLAIMS)}"
    proof = hmac.digest(RSA.as_pem(private=False), head.encode(), "sha256")
    forged = f"{head}.{base64.urlsafe_b64encode(proof).decode()}"
    with pytest.raises(BearerTokenError):
        validate_signed(forged, SignedRules(), keys(), NOW_MS)


def test_a_changed_token_is_refused() -> None:
    header, _, signature = signed(CLAIMS).split(".")
    with pytest.raises(BearerTokenError):
        validate_signed(
            f"{header}.{segment(CLAIMS | {'sub': 'root'})}.{signature}", SignedRules(), keys(), NOW_MS
        )
    with pytest.raises(BearerTokenError):  # the algorithm has to fit the key
        validate_signed(signed(CLAIMS, EC, "ES256", kid="rsa"), SignedRules(), keys(), NOW_MS)


def test_an_unknown_key_asks_for_a_refresh_now_and_then() -> None:
    clock = Clock()
    found = keys(clock)
    for number in range(100):
        assert not found.verify(f"kid-{number}", "RS256", b"", b"")
    assert len(found._missing) == MISSING_IDS_MAX
    clock.now += EARLY_REFRESH_S
    assert not found.verify("kid-99", "RS256", b"", b"")
    assert list(found._missing) == ["kid-99"]


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"keys": 3}', b'{"keys": [3]}', b"[" * 100_000])
def test_an_answer_that_is_no_key_set(data: bytes) -> None:
    with pytest.raises(JwksError):
        keys().load(data)


def test_an_unsecured_token() -> None:
    rules = UnsecuredRules(required_scope=("read",))
    identity = validate_unsecured(unsecured_token("alice", ["read", "write"], NOW_MS, 60), rules, NOW_MS)
    assert (identity.name, identity.expires_ms) == ("alice", NOW_MS + 60_000)
    for token in (
        unsecured_token("alice", [], NOW_MS, 60),
        unsecured_token("alice", ["read"], NOW_MS - 60_000, 60),
        unsecured_token("alice", ["read"], NOW_MS + 1000, 60),
        signed(CLAIMS | {"scope": "read"}),
    ):
        with pytest.raises(BearerTokenError):
            validate_unsecured(token, rules, NOW_MS)


@given(st.text())
def test_arbitrary_text_is_no_token(text: str) -> None:
    with pytest.raises(BearerTokenError):
        validate_unsecured(text, UnsecuredRules(), NOW_MS)


def test_half_a_character_names_nobody() -> None:
    """It would be a principal that no answer and no znode could name."""
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode()
        for part in ({"alg": "none"}, {"sub": "a\ud800", "exp": NOW + 100})
    )
    with pytest.raises(BearerTokenError, match="is not Unicode"):
        validate_unsecured(f"{header}.{claims}.", UnsecuredRules(), NOW_MS)
