"""SCRAM credentials of users: who has which, and setting and removing them."""

import secrets
from collections.abc import Mapping, Sequence

from ottla.client.admin.router import Router
from ottla.client.errors import refusal
from security.scram import ScramMechanism, salted
from wire.errors import Error
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALT_SIZE = 16


class UsersAdmin:
    """The admin client's calls for users."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_scram_users(self, names: Sequence[str] = ()) -> dict[str, dict[ScramMechanism, int]]:
        """Return the iterations of each mechanism that users have; of all users where none is named.

        A named user without a credential has none of them.

        Raises:
            ClientError: the cluster refuses.
        """
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])
        answer = await self._router.ask_any(request)
        _raise_for(answer.error_code, answer.error_message)
        codes = {mechanism.code: mechanism for mechanism in ScramMechanism}
        found: dict[str, dict[ScramMechanism, int]] = {}
        for result in answer.results:
            if result.error_code != Error.RESOURCE_NOT_FOUND:
                _raise_for(result.error_code, result.error_message)
            found[result.user] = {
                codes[info.mechanism]: info.iterations
                for info in result.credential_infos
                if info.mechanism in codes
            }
        return found

    async def alter_scram_credentials(
        self,
        user: str,
        passwords: Mapping[ScramMechanism, tuple[str, int]],
        removed: Sequence[ScramMechanism] = (),
    ) -> None:
        """Set and remove a user's credentials; the password itself is not sent.

        Args:
            user: Whose.
            passwords: The new password and the iterations, by mechanism.
            removed: The mechanisms that the user no longer has.

        Raises:
            ClientError: the cluster refuses; nothing was changed.
        """
        upsertions = []
        for mechanism, (password, iterations) in passwords.items():
            salt = secrets.token_bytes(SALT_SIZE)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=mechanism.code,
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted(mechanism, password, salt, iterations),
                )
            )
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=user, mechanism=each.code) for each in removed],
            upsertions=upsertions,
        )
        answer = await self._router.ask_controller(
            request, lambda found: [each.error_code for each in found.results]
        )
        for result in answer.results:
            _raise_for(result.error_code, result.error_message)


def _raise_for(code: int, message: str | None) -> None:
    if code:
        raise refusal(Error.from_code(code), message)
