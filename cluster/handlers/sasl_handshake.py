"""SaslHandshake 0 and 1, and SaslAuthenticate 0 to 2, outside an authentication: ILLEGAL_SASL_STATE.

On a SASL listener the gate before the dispatcher takes these requests; those that come here are from a client whose
authentication does not expire, or on a listener without SASL.
"""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.sasl_authenticate import SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve SaslHandshake and SaslAuthenticate."""
    registry.add(ApiKey.SASL_HANDSHAKE, 0, 1, begin_handshake)
    registry.add(ApiKey.SASL_AUTHENTICATE, 0, 2, begin_authenticate)


def begin_handshake(call: "ApiCall[CallContext]") -> None:
    """Refuse a handshake."""
    call.respond(SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE))


def begin_authenticate(call: "ApiCall[CallContext]") -> None:
    """Refuse a token."""
    call.respond(
        SaslAuthenticateResponse(
            error_code=Error.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate came after authentication, or on a listener without SASL",
        )
    )
