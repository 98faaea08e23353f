"""AlterUserScramCredentials 0: set and remove SCRAM credentials of users (KIP-554).

Only the active controller answers; the others say NOT_CONTROLLER for each user. The client salts the password: what it
sends is as good as the password, so a listener without TLS shows it to every eavesdropper. One wrong item fails all
items of its user, but not those of others. Quotas in the same znode stay.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.context import HasController, HasStore
from cluster.handlers.failures import EXPECTED_FAILURES, Failure, failure_of
from cluster.security.authentication_log import audit
from cluster.zookeeper.znodes import USERS, sanitize
from security.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential_of
from wire.apis import ApiKey
from wire.errors import ApiError, Error
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_BY_CODE: Final = {mechanism.code: mechanism for mechanism in ScramMechanism}


class _Broker(HasController, HasStore, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve AlterUserScramCredentials."""
    registry.add_async(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, handle)


async def handle(call: "ApiCall[_Broker]") -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user separately; return when they are stored and announced."""
    request: AlterUserScramCredentialsRequest = call.request
    items = [(item.name, item.mechanism) for item in request.deletions]
    items += [(item.name, item.mechanism) for item in request.upsertions]
    users = sorted({name for name, _ in items})
    if not call.broker.controller.is_active:
        failures: dict[str, Failure | None] = dict.fromkeys(users, Failure(Error.NOT_CONTROLLER, None))
    else:
        times = Counter(items)
        failures = {user: await _alter(call, user, times) for user in users}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=0 if failure is None else failure.code,
                error_message=None if failure is None else failure.message,
            )
            for user, failure in failures.items()
        ]
    )


async def _alter(call: "ApiCall[_Broker]", user: str, times: Mapping[tuple[str, int], int]) -> Failure | None:
    """Change one user's credentials; with an error, which is returned, nothing changes."""
    request: AlterUserScramCredentialsRequest = call.request
    deletions = [item.mechanism for item in request.deletions if item.name == user]
    upsertions = [item for item in request.upsertions if item.name == user]
    try:
        if not user:
            raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        removed = [_mechanism(code) for code in deletions]
        stored = {_mechanism(item.mechanism).value: _credential_text(item) for item in upsertions}
        if any(count > 1 for (name, _), count in times.items() if name == user):
            raise ApiError(
                Error.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        change = partial(_changed, removed, stored)
        await call.broker.store.change_config(USERS, sanitize(user), change)
    except EXPECTED_FAILURES as exception:
        return failure_of(exception)
    audit.info(
        "credentials changed: user=%r set=%s removed=%s by=%r address=%s",
        user,
        ",".join(stored) or "-",
        ",".join(mechanism.value for mechanism in removed) or "-",
        str(call.principal),
        call.client_address,
    )
    return None


def _changed(
    removed: list[ScramMechanism], stored: dict[str, str], present: dict[str, str]
) -> dict[str, str]:
    """Return a user's configuration after the change.

    Raises:
        ApiError: a credential that is to be removed does not exist.
    """
    result = dict(present)
    for mechanism in removed:
        if result.pop(mechanism.value, None) is None:
            raise ApiError(
                Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )
    return result | stored


def _mechanism(code: int) -> ScramMechanism:
    mechanism = _BY_CODE.get(code)
    if mechanism is None:
        raise ApiError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _credential_text(item: ScramCredentialUpsertion) -> str:
    """Return a new credential as ZooKeeper keeps it.

    Raises:
        ApiError: the iterations are too few or too many, or salt or password are missing.
    """
    mechanism = _mechanism(item.mechanism)
    if item.iterations < ITERATIONS_MIN:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if item.iterations > ITERATIONS_MAX:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    salted_password, salt = bytes(item.salted_password), bytes(item.salt)
    if not salt or not salted_password:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "expected a salt and a salted password")
    return credential_of(mechanism, salted_password, salt, item.iterations).to_text()
