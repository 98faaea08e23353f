"""Delegation tokens: make, renew, end and list them, over a connection that is authenticated. Any broker answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.client.admin.router import Router, raise_for
from wire.messages import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)


@dataclass(frozen=True, slots=True)
class TokenDescription:
    """A token.

    Attributes:
        token_id: Its id, the user name of its login.
        hmac: Its HMAC; in base64 it is the password of its login. A secret.
        owner: The principal of such a login, as `User:name`.
        requester: Who asked for it.
        renewers: Who may renew it besides its owner.
        issued_ms: When it was made, in wall time.
        expires_ms: When it expires, in wall time.
        max_ms: The latest time to which it can be renewed, in wall time.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int


class TokensAdmin:
    """The admin client's calls for delegation tokens."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def create_token(
        self, renewers: Sequence[tuple[str, str]], lifetime_ms: int = -1, owner: tuple[str, str] | None = None
    ) -> TokenDescription:
        """Make a token.

        Args:
            renewers: Who may renew it, as type and name.
            lifetime_ms: How long it can be renewed, in milliseconds; negative for the longest that the brokers allow.
            owner: The token's principal, as type and name; None for the one that asks.

        Raises:
            ClientError: the cluster refuses.
        """
        request = create_delegation_token.CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner[0],
            owner_principal_name=None if owner is None else owner[1],
            renewers=[
                create_delegation_token.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        )
        answer: create_delegation_token.CreateDelegationTokenResponse = await self._router.ask_any(request)
        raise_for(answer.error_code, None, "the delegation token")
        return TokenDescription(
            answer.token_id,
            bytes(answer.hmac),
            f"{answer.principal_type}:{answer.principal_name}",
            f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            tuple(f"{kind}:{name}" for kind, name in renewers),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def renew_token(self, hmac: bytes, period_ms: int) -> int:
        """Renew a token for a period in ms, and return when it expires; a negative period means the brokers' default.

        Raises:
            ClientError: the cluster refuses.
        """
        request = renew_delegation_token.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        answer: renew_delegation_token.RenewDelegationTokenResponse = await self._router.ask_any(request)
        raise_for(answer.error_code, None, "the delegation token")
        return answer.expiry_timestamp_ms

    async def expire_token(self, hmac: bytes, period_ms: int) -> int:
        """Expire a token after a period in ms, and return when it expires; a negative period expires it now.

        Raises:
            ClientError: the cluster refuses.
        """
        request = expire_delegation_token.ExpireDelegationTokenRequest(
            hmac=hmac, expiry_time_period_ms=period_ms
        )
        answer: expire_delegation_token.ExpireDelegationTokenResponse = await self._router.ask_any(request)
        raise_for(answer.error_code, None, "the delegation token")
        return answer.expiry_timestamp_ms

    async def describe_tokens(
        self, owners: Sequence[tuple[str, str]] | None = None
    ) -> list[TokenDescription]:
        """Return the tokens of some owners, or of all, that this user is allowed to see.

        Raises:
            ClientError: the cluster refuses.
        """
        request = describe_delegation_token.DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else [
                describe_delegation_token.DescribeDelegationTokenOwner(
                    principal_type=kind, principal_name=name
                )
                for kind, name in owners
            ]
        )
        answer: describe_delegation_token.DescribeDelegationTokenResponse = await self._router.ask_any(
            request
        )
        raise_for(answer.error_code, None, "the delegation tokens")
        return [
            TokenDescription(
                each.token_id,
                bytes(each.hmac),
                f"{each.principal_type}:{each.principal_name}",
                f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
                tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                each.issue_timestamp,
                each.expiry_timestamp,
                each.max_timestamp,
            )
            for each in answer.tokens
        ]
