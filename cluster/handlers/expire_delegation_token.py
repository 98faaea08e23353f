"""ExpireDelegationToken 0 to 2: expire a token, now or at another time, for its owner and its renewers."""

from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.token_requests import NEVER, tokens_of
from cluster.security.authorizer import audit_logger, quoted
from wire.apis import ApiKey
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTokens
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ExpireDelegationToken."""
    registry.add_async(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, handle)


async def handle(call: "ApiCall[HasTokens]") -> ExpireDelegationTokenResponse:
    """Store the token with its new expiry, or remove it at once for a negative period."""
    request: ExpireDelegationTokenRequest = call.request
    try:
        tokens = tokens_of(call)
        token = tokens.tokens.expired(
            bytes(request.hmac), call.principal, request.expiry_time_period_ms, call.broker.clock.wall_ms()
        )
        if request.expiry_time_period_ms < 0:
            await tokens.remove(token.token_id)
        else:
            await tokens.store(token)
    except EXPECTED_FAILURES as failure:
        return ExpireDelegationTokenResponse(error_code=failure_of(failure).code, expiry_timestamp_ms=NEVER)
    audit_logger.info("principal=%s expired token=%s", quoted(str(call.principal)), quoted(token.token_id))
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
