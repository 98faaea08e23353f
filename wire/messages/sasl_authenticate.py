"""SaslAuthenticate: one step of the SASL exchange.

Versions:
    1: how long the session lasts before it must authenticate again (KIP-368).
    2: compact lengths and tagged fields (flexible).
"""

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT64, STRING, Request, Response, field


class SaslAuthenticateRequest(Request, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field(BYTES, sensitive=True)


class SaslAuthenticateResponse(Response, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    auth_bytes: bytes = field(BYTES, sensitive=True)
    session_lifetime_ms: int = field(INT64, versions="1+", ignorable=True)
