"""SaslHandshake: choose the SASL mechanism of the connection.

After version 0 the SASL bytes follow bare; after version 1 they travel in SaslAuthenticate.

Versions:
    1: SaslAuthenticate follows.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, STRING, Request, Response, array, field


class SaslHandshakeRequest(Request, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    mechanism: str = field(STRING)


class SaslHandshakeResponse(Response, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    error_code: int = field(INT16)
    mechanisms: Sequence[str] = field(array(STRING))
