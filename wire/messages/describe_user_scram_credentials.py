"""DescribeUserScramCredentials: SCRAM mechanisms and iterations of users (KIP-554). No secrets."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class UserName(Struct):
    name: str = field(STRING)


class DescribeUserScramCredentialsRequest(
    Request, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    users: Sequence[UserName] | None = field(array(UserName), nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = field(INT8)
    iterations: int = field(INT32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    credential_infos: Sequence[CredentialInfo] = field(array(CredentialInfo))


class DescribeUserScramCredentialsResponse(
    Response, api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")
    results: Sequence[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))
