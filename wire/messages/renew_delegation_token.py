"""RenewDelegationToken: postpone the expiry of a delegation token.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
"""

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT32, INT64, Request, Response, field
from wire.types import WallMs


class RenewDelegationTokenRequest(Request, api=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    hmac: bytes = field(BYTES, sensitive=True)
    renew_period_ms: int = field(INT64)


class RenewDelegationTokenResponse(
    Response, api=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"
):
    error_code: int = field(INT16)
    expiry_timestamp_ms: WallMs = field(INT64)
    throttle_time_ms: int = field(INT32)
