"""Validation of bearer tokens (JWT, RFC 7519) for OAUTHBEARER: without a signature for development, or by JWKS.

A token's content is untrusted until its signature is verified: sizes, depths and types are checked, and none of it is
put into a message.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cluster.security.sasl_mechanisms import BearerIdentity, BearerTokenError

TOKEN_BYTES_MAX: Final = 64 * 1024
KID_SIZE_MAX: Final = 1000


class SigningKeys(Protocol):
    """The keys that tokens may be signed with."""

    def verify(self, kid: str, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether the key `kid` made a signature; also False if there is no such key."""
        ...


@dataclass(frozen=True, slots=True)
class UnsecuredRules:
    """The claims that an unsigned token must have.

    Attributes:
        principal_claim: The claim that names the principal.
        scope_claim: The claim that holds the scope.
        required_scope: Scopes that it must contain.
        clock_skew_ms: By how many milliseconds clocks may differ.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: Sequence[str] = ()
    clock_skew_ms: int = 0


@dataclass(frozen=True, slots=True)
class SignedRules:
    """The claims that a signed token must have.

    Attributes:
        subject_claim: The claim that names the principal.
        scope_claim: The claim that holds the scope.
        issuer: The required issuer; None for any.
        audience: The audiences, one of which the token must name. A token that names an audience is refused where none
            is expected.
        clock_skew_ms: By how many milliseconds clocks may differ.
    """

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    issuer: str | None = None
    audience: Sequence[str] = ()
    clock_skew_ms: int = 30_000


def validate_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> BearerIdentity:
    """Check a token without a signature.

    Raises:
        BearerTokenError: it is malformed, signed, expired, not issued yet, or lacks a scope.
    """
    header, claims, _, signature = _parse(token)
    if header.get("alg") != "none" or signature:
        raise BearerTokenError("an unsecured token has the algorithm none, and no signature")
    expires_ms = _time_ms(claims, "exp", required=True)
    issued_ms = _time_ms(claims, "iat", required=False)
    assert expires_ms is not None
    if expires_ms + rules.clock_skew_ms <= now_ms:
        raise BearerTokenError("the token has expired")
    if issued_ms is not None and issued_ms - rules.clock_skew_ms > now_ms:
        raise BearerTokenError("the token is issued in the future")
    scopes = _scopes(claims.get(rules.scope_claim))
    if not set(rules.required_scope) <= set(scopes):
        raise BearerTokenError("the token lacks a required scope")
    return BearerIdentity(_name(claims, rules.principal_claim), expires_ms)


def validate_signed(token: str, rules: SignedRules, keys: SigningKeys, now_ms: int) -> BearerIdentity:
    """Check a token against a key set.

    Raises:
        BearerTokenError: it is malformed, its signature is invalid, or a claim breaks a rule.
    """
    header, claims, signed, signature = _parse(token)
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise BearerTokenError("the token is signed by an algorithm that is not allowed")
    if not isinstance(kid, str) or len(kid) > KID_SIZE_MAX:
        raise BearerTokenError("the token names no usable key")
    if not keys.verify(kid, algorithm, signed, signature):
        raise BearerTokenError("no known key made the token's signature")
    expires_ms = _time_ms(claims, "exp", required=True)
    issued_ms = _time_ms(claims, "iat", required=True)
    begins_ms = _time_ms(claims, "nbf", required=False)
    assert expires_ms is not None
    assert issued_ms is not None
    if expires_ms + rules.clock_skew_ms <= now_ms:
        raise BearerTokenError("the token has expired")
    if max(issued_ms, begins_ms or 0) - rules.clock_skew_ms > now_ms:
        raise BearerTokenError("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BearerTokenError("the token is of another issuer")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [] if audience is None else [audience]
    if (rules.audience or named) and not any(
        each in rules.audience for each in named if isinstance(each, str)
    ):
        raise BearerTokenError("the token is for another audience")
    _scopes(claims.get(rules.scope_claim))
    return BearerIdentity(_name(claims, rules.subject_claim), expires_ms)


ALGORITHMS: Final = frozenset(
    f"{family}{size}" for family in ("RS", "PS", "ES") for size in (256, 384, 512)
) | {"EdDSA"}
"""Asymmetric algorithms only: with HMAC, the issuer's public key could pass for a shared secret."""


def _parse(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any], bytes, bytes]:
    """Return header, claims, the bytes that are signed, and the signature."""
    if len(token) > TOKEN_BYTES_MAX:
        raise BearerTokenError(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise BearerTokenError("a token has three parts")
    header, claims = (_object(decode_base64(part)) for part in parts[:2])
    return header, claims, f"{parts[0]}.{parts[1]}".encode(), decode_base64(parts[2])


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, padded or not.

    Raises:
        BearerTokenError: it is not base64.
    """
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BearerTokenError("a part of the token is not base64") from None


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data, object_pairs_hook=_without_duplicates, parse_constant=_refused_constant)
    except (ValueError, RecursionError):
        raise BearerTokenError("a part of the token is not JSON") from None
    if not isinstance(found, dict):
        raise BearerTokenError("a part of the token is no JSON object")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _time_ms(claims: Mapping[str, Any], name: str, *, required: bool) -> int | None:
    value = claims.get(name)
    if value is None and not required:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BearerTokenError(f"the claim {name} is no time")
    # Compared first: an integer of 400 digits does not fit into a float, and NaN is in no range.
    if not 0 <= value <= 1 << 40:
        raise BearerTokenError(f"the claim {name} is out of range")
    return int(value * 1000)


def _scopes(value: object) -> list[str]:
    scopes = value.split() if isinstance(value, str) else [] if value is None else value
    if not isinstance(scopes, list) or not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        raise BearerTokenError("the token's scope is malformed")
    if len(set(scopes)) != len(scopes):
        raise BearerTokenError("the token's scope has duplicates")
    return scopes


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise BearerTokenError(f"the claim {claim} names nobody")
    if any("\ud800" <= character <= "\udfff" for character in value):
        # JSON can escape half a character, which no answer and no znode could carry.
        raise BearerTokenError(f"the claim {claim} is not Unicode")
    return value.strip()


Validate = Callable[[str], BearerIdentity]
