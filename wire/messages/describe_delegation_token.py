"""DescribeDelegationToken: delegation tokens by owner.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: a token's requester.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BYTES, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import WallMs


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribeDelegationTokenRequest(
    Request, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    owners: Sequence[DescribeDelegationTokenOwner] | None = field(
        array(DescribeDelegationTokenOwner), nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribedDelegationToken(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, versions="3+")
    token_requester_principal_name: str = field(STRING, versions="3+")
    issue_timestamp: WallMs = field(INT64)
    expiry_timestamp: WallMs = field(INT64)
    max_timestamp: WallMs = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES, sensitive=True)
    renewers: Sequence[DescribedDelegationTokenRenewer] = field(array(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(
    Response, api=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    error_code: int = field(INT16)
    tokens: Sequence[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
