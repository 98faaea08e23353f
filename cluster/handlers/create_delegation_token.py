"""CreateDelegationToken 0 to 3: create a token that logs in as its owner; any broker answers."""

import secrets
from typing import TYPE_CHECKING

from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.token_requests import FIRST_WITH_REQUESTER, NEVER, tokens_of
from cluster.security.acl import Operation, ResourceType
from cluster.security.authorizer import audit_logger, quoted
from cluster.security.principal import KafkaPrincipal
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTokens
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve CreateDelegationToken."""
    registry.add_async(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, handle)


async def handle(call: "ApiCall[HasTokens]") -> CreateDelegationTokenResponse:
    """Create a token, store it, and answer with its HMAC, which is its password."""
    request: CreateDelegationTokenRequest = call.request
    requester = call.principal
    shown = requester if call.version >= FIRST_WITH_REQUESTER else KafkaPrincipal("", "")
    owner = requester
    if request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
    try:
        tokens = tokens_of(call)
        if owner != requester and not call.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise ApiError(Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        renewers = tuple(
            KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers
        )
        token = tokens.tokens.new(
            owner,
            requester,
            renewers,
            request.max_lifetime_ms,
            call.broker.clock.wall_ms(),
            secrets.token_bytes(16),
        )
        await tokens.store(token)
    except EXPECTED_FAILURES as failure:
        return CreateDelegationTokenResponse(
            error_code=failure_of(failure).code,
            principal_type=owner.type,
            principal_name=owner.name,
            token_requester_principal_type=shown.type,
            token_requester_principal_name=shown.name,
            issue_timestamp_ms=NEVER,
            expiry_timestamp_ms=NEVER,
            max_timestamp_ms=NEVER,
        )
    audit_logger.info(
        "principal=%s created token=%s owner=%s",
        quoted(str(requester)),
        quoted(token.token_id),
        quoted(str(owner)),
    )
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=shown.type,
        token_requester_principal_name=shown.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=token.hmac,
    )
