"""DescribeDelegationToken 0 to 3: the tokens that a client may see, with their HMACs, which are their passwords."""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.token_requests import FIRST_WITH_REQUESTER, tokens_of
from cluster.security.acl import Operation, ResourceType
from cluster.security.principal import KafkaPrincipal
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTokens
    from cluster.handlers.registry import Registry
    from cluster.security.delegation_tokens import DelegationToken


def register(registry: "Registry") -> None:
    """Serve DescribeDelegationToken."""
    registry.add_async(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, handle)


async def handle(call: "ApiCall[HasTokens]") -> DescribeDelegationTokenResponse:
    """Answer with the visible tokens of the requested owners, or of all."""
    request: DescribeDelegationTokenRequest = call.request
    try:
        tokens = tokens_of(call).tokens
        if tokens.settings is None:
            raise ApiError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    except EXPECTED_FAILURES as failure:
        return DescribeDelegationTokenResponse(error_code=failure_of(failure).code)
    owners = None
    if request.owners is not None:
        owners = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, call.version)
            for token in tokens
            if (owners is None or any(token.concerns(owner) for owner in owners)) and _may_see(call, token)
        ]
    )


def _may_see(call: "ApiCall[HasTokens]", token: "DelegationToken") -> bool:
    if token.concerns(call.principal):
        return True
    if call.subject is None:
        return True
    return call.may(
        Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, quiet=True
    ) or call.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), quiet=True)


def _described(token: "DelegationToken", version: int) -> DescribedDelegationToken:
    requester = token.requester if version >= FIRST_WITH_REQUESTER else KafkaPrincipal("", "")
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
