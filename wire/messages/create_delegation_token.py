"""CreateDelegationToken: issue a delegation token.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: a token for another owner; its requester.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import WallMs


class CreatableRenewers(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class CreateDelegationTokenRequest(
    Request, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    owner_principal_type: str | None = field(STRING, versions="3+", nullable="3+")
    owner_principal_name: str | None = field(STRING, versions="3+", nullable="3+")
    renewers: Sequence[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


class CreateDelegationTokenResponse(
    Response, api=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, versions="3+")
    token_requester_principal_name: str = field(STRING, versions="3+")
    issue_timestamp_ms: WallMs = field(INT64)
    expiry_timestamp_ms: WallMs = field(INT64)
    max_timestamp_ms: WallMs = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES, sensitive=True)
    throttle_time_ms: int = field(INT32)
