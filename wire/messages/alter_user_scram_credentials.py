"""AlterUserScramCredentials: set or remove SCRAM credentials of users (KIP-554)."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BYTES, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class ScramCredentialDeletion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)


class ScramCredentialUpsertion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES, sensitive=True)
    salted_password: bytes = field(BYTES, sensitive=True)


class AlterUserScramCredentialsRequest(
    Request, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    deletions: Sequence[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: Sequence[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class AlterUserScramCredentialsResponse(
    Response, api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(INT32)
    results: Sequence[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
