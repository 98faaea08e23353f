"""RenewDelegationToken 0 to 2: postpone the expiry of a token, for its owner and its renewers."""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.token_requests import NEVER, tokens_of
from wire.apis import ApiKey
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTokens
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve RenewDelegationToken."""
    registry.add_async(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, handle)


async def handle(call: "ApiCall[HasTokens]") -> RenewDelegationTokenResponse:
    """Store the token with its new expiry, and answer with that."""
    request: RenewDelegationTokenRequest = call.request
    try:
        tokens = tokens_of(call)
        token = tokens.tokens.renewed(
            bytes(request.hmac), call.principal, request.renew_period_ms, call.broker.clock.wall_ms()
        )
        await tokens.store(token)
    except EXPECTED_FAILURES as failure:
        return RenewDelegationTokenResponse(error_code=failure_of(failure).code, expiry_timestamp_ms=NEVER)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
