"""Which connections may ask for delegation tokens, and principals as token messages have them."""

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
"""The first version of the answers that names who asked for a token (KIP-373)."""
NEVER: Final = WallMs(-1)
"""The times of a token in an answer that refuses it."""


def tokens_of(call: "ApiCall[HasTokens]") -> "StoredTokens":
    """Return the tokens, for a connection that may ask for them.

    Raises:
        ApiError: nobody is known to be at the other end, or a token says who.
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
