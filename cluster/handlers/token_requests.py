"""The connections that may ask for delegation tokens, and the principals of token messages."""

from typing import TYPE_CHECKING, Final

from cluster.network.endpoints import SecurityProtocol
from cluster.security.principal import ANONYMOUS
from wire.errors import ApiError, Error
from wire.types import WallMs

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTokens
    from cluster.zookeeper.stored_tokens import StoredTokens

FIRST_WITH_REQUESTER: Final = 3
"""The first version whose answers name the requester of a token (KIP-373)."""
NEVER: Final = WallMs(-1)
"""The timestamps of a token in an answer with an error."""


def tokens_of(call: "ApiCall[HasTokens]") -> "StoredTokens":
    """Return the tokens, for a connection that may ask for them.

    Raises:
        ApiError: the client is not authenticated, or authenticated with a token itself.
    """
    connection = call.slot.connection
    principal = call.principal
    if (
        connection.security_protocol is SecurityProtocol.PLAINTEXT
        or (connection.security_protocol is SecurityProtocol.SSL and principal == ANONYMOUS)
        or principal.token_authenticated
    ):
        raise ApiError(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return call.broker.tokens
