"""DescribeUserScramCredentials 0: the SCRAM mechanisms and iterations of users (KIP-554). No secrets.

Answered from this broker's copy of ``/config/users``; users without a credential are not listed, and if named they get
RESOURCE_NOT_FOUND.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasScram
    from cluster.handlers.registry import Registry
    from cluster.security.scram_credentials import ScramCredentials


def register(registry: "Registry") -> None:
    """Serve DescribeUserScramCredentials."""
    registry.add(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, begin)


def begin(call: "ApiCall[HasScram]") -> None:
    """Describe the users that are named, or all of them."""
    request: DescribeUserScramCredentialsRequest = call.request
    credentials = call.broker.scram
    named = [user.name for user in request.users or ()]
    users = list(dict.fromkeys(named)) if named else list(credentials)
    call.respond(
        DescribeUserScramCredentialsResponse(
            results=[_result(credentials, user, is_twice=named.count(user) > 1) for user in users]
        )
    )


def _result(
    credentials: "ScramCredentials", user: str, *, is_twice: bool
) -> DescribeUserScramCredentialsResult:
    found = credentials.of_user(user)
    code, message = Error.NONE, None
    if is_twice:
        code, message = Error.DUPLICATE_RESOURCE, f"the user {user} is named more than once"
    elif not found:
        code, message = Error.RESOURCE_NOT_FOUND, f"the user {user} has no SCRAM credential"
    infos = [] if is_twice else sorted((each.code, found[each].iterations) for each in found)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=code,
        error_message=message,
        credential_infos=[CredentialInfo(mechanism=code, iterations=count) for code, count in infos],
    )
