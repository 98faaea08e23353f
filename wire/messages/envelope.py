"""Envelope: a request forwarded to the controller with the principal that sent it (KIP-590). We refuse it."""

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, Request, Response, field


class EnvelopeRequest(Request, api=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    request_data: bytes = field(BYTES)
    request_principal: bytes | None = field(BYTES, nullable="0+")
    client_host_address: bytes = field(BYTES)


class EnvelopeResponse(Response, api=ApiKey.ENVELOPE, versions="0", flexible="0+"):
    response_data: bytes | None = field(BYTES, nullable="0+", default=None)
    error_code: int = field(INT16)
