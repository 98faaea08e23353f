"""Delegation tokens (KIP-48): values, their lifetimes, and who may do what with them.

A token is its id and an HMAC over it, which is the password: it is never logged. All brokers sign with the same secret.
Expired tokens stay until the controller removes them.
"""

import base64
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from cluster.security.principal import USER_TYPE, KafkaPrincipal
from wire.errors import ApiError, Error
from wire.types import WallMs

_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token.

    Attributes:
        token_id: Its id, which is the user name of its login.
        owner: The principal that a login by the token acts as.
        requester: The principal that asked for it.
        renewers: Who may renew and expire it besides its owner.
        issued_ms: When it was made, in wall time.
        max_ms: Until when it can be renewed.
        expires_ms: Until when it is valid.
        hmac: The signature of its id, which is the password of its login. A secret.
    """

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: WallMs
    max_ms: WallMs
    expires_ms: WallMs
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password of its SCRAM login. A secret."""
        return base64.b64encode(self.hmac).decode()

    def concerns(self, principal: KafkaPrincipal) -> bool:
        """Whether a principal may see it without an ACL: its owner, its requester, and its renewers."""
        return principal in (self.owner, self.requester, *self.renewers)

    def may_change(self, principal: KafkaPrincipal) -> bool:
        """Whether a principal may renew and expire it: its owner and its renewers, not its requester."""
        return principal in (self.owner, *self.renewers)


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """How long tokens live, and what they are signed with.

    Attributes:
        secret: `delegation.token.secret.key`. A secret.
        max_lifetime_ms: `delegation.token.max.lifetime.ms`.
        renewal_ms: `delegation.token.expiry.time.ms`.
        sweep_interval_ms: `delegation.token.expiry.check.interval.ms`.
    """

    secret: str = field(repr=False)
    max_lifetime_ms: int
    renewal_ms: int
    sweep_interval_ms: int


class DelegationTokens:
    """The tokens of a cluster, by id and by HMAC; pure, without a clock.

    Args:
        settings: Lifetimes and the secret; None if tokens are switched off.
    """

    __slots__ = ("_by_hmac", "_by_id", "settings")

    def __init__(self, settings: TokenSettings | None) -> None:
        self.settings = settings
        self._by_id: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, DelegationToken] = {}

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(tuple(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, token_id: str) -> DelegationToken | None:
        """Return the token of an id, expired or not."""
        return self._by_id.get(token_id)

    def keep(self, token: DelegationToken) -> None:
        """Add a token, or replace its earlier state."""
        self.drop(token.token_id)
        self._by_id[token.token_id] = token
        self._by_hmac[token.hmac] = token

    def drop(self, token_id: str) -> None:
        """Forget a token."""
        former = self._by_id.pop(token_id, None)
        if former is not None:
            del self._by_hmac[former.hmac]

    def sign(self, token_id: str) -> bytes:
        """Return the HMAC of a token id.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED: there is no secret.
        """
        return hmac.digest(self._settings().secret.encode(), token_id.encode(), "sha512")

    def new(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: tuple[KafkaPrincipal, ...],
        lifetime_ms: int,
        now_ms: WallMs,
        random: bytes,
    ) -> DelegationToken:
        """Return a new token, without adding it.

        Args:
            owner: The principal that a login by the token acts as.
            requester: The principal that asks for it.
            renewers: Who may renew it besides.
            lifetime_ms: How long it can be renewed; zero or less means for the maximum.
            now_ms: The wall time.
            random: 16 random bytes, for its id.

        Raises:
            ApiError: a renewer is not a user, or tokens are switched off.
        """
        if any(renewer.type != USER_TYPE for renewer in renewers):
            raise ApiError(Error.INVALID_PRINCIPAL_TYPE, "only users renew tokens")
        settings = self._settings()
        longest = settings.max_lifetime_ms
        lifetime = min(lifetime_ms, longest) if lifetime_ms > 0 else longest
        token_id = base64.urlsafe_b64encode(random[:_ID_BYTES]).decode().rstrip("=")
        return DelegationToken(
            token_id,
            owner,
            requester,
            renewers,
            issued_ms=now_ms,
            max_ms=WallMs(now_ms + lifetime),
            expires_ms=WallMs(now_ms + min(lifetime, settings.renewal_ms)),
            hmac=self.sign(token_id),
        )

    def renewed(
        self, token_hmac: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: WallMs
    ) -> DelegationToken:
        """Return a token with a later end; a negative period is the default one.

        Raises:
            ApiError: there is no such token, the principal may not renew it, or it has expired.
        """
        token = self._held(token_hmac, principal)
        _require_valid(token, now_ms)
        period = self._settings().renewal_ms if period_ms < 0 else period_ms
        return replace(token, expires_ms=WallMs(min(token.max_ms, now_ms + period)))

    def expired(
        self, token_hmac: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: WallMs
    ) -> DelegationToken:
        """Return a token that ends after a period; a negative one ends it now, and the caller then removes it.

        Raises:
            ApiError: there is no such token, the principal may not end it, or it has expired already.
        """
        token = self._held(token_hmac, principal)
        if period_ms < 0:
            return replace(token, expires_ms=now_ms)
        _require_valid(token, now_ms)
        return replace(token, expires_ms=WallMs(min(token.max_ms, now_ms + period_ms)))

    def over(self, now_ms: WallMs) -> list[DelegationToken]:
        """Return the tokens that have expired."""
        return [token for token in self if token.expires_ms < now_ms]

    def _held(self, token_hmac: bytes, principal: KafkaPrincipal) -> DelegationToken:
        self._settings()
        token = self._by_hmac.get(token_hmac)
        if token is None:
            raise ApiError(Error.DELEGATION_TOKEN_NOT_FOUND)
        if not token.may_change(principal):
            raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    def _settings(self) -> TokenSettings:
        if self.settings is None:
            raise ApiError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
        return self.settings


def _require_valid(token: DelegationToken, now_ms: WallMs) -> None:
    if token.expires_ms < now_ms or token.max_ms < now_ms:
        raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)
