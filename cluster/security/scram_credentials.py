"""The SCRAM credentials of all users, as ``/config/users`` has them: read at start, then replaced user by user."""

import logging
from collections.abc import Iterator, Mapping

from security.scram import CredentialFormatError, ScramCredential, ScramMechanism, parse_credential

logger = logging.getLogger(__name__)


class ScramCredentials:
    """Finds the credential of a user.

    Removing one does not end the connections that it authenticated, as in Kafka.
    """

    __slots__ = ("_by_user",)

    def __init__(self) -> None:
        self._by_user: dict[str, dict[ScramMechanism, ScramCredential]] = {}

    def __iter__(self) -> Iterator[str]:
        """Return the users that have a credential, sorted."""
        return iter(sorted(self._by_user))

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return a user's credential; None where there is none."""
        return self._by_user.get(user, {}).get(mechanism)

    def of_user(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        """Return all credentials of a user."""
        return self._by_user.get(user, {})

    def replace(self, user: str, config: Mapping[str, str]) -> None:
        """Replace a user's credentials; one that cannot be read is left out, and logged without its value.

        Args:
            user: The user's name, decoded.
            config: The user's configuration in ZooKeeper; quotas and other entries are ignored.
        """
        found = {}
        for mechanism in ScramMechanism:
            text = config.get(mechanism.value)
            if text is None:
                continue
            try:
                found[mechanism] = parse_credential(mechanism, text)
            except CredentialFormatError as error:
                logger.warning("the credential of the user %r is ignored: %s", user, error)
        if found:
            self._by_user[user] = found
        else:
            self._by_user.pop(user, None)

    def replace_all(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the credentials of all users; a user that is not among them loses its own."""
        for user in self._by_user.keys() - configs.keys():
            del self._by_user[user]
        for user, config in configs.items():
            self.replace(user, config)
