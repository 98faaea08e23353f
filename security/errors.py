"""Errors of credentials and stores, and of the peers that check them."""


class SecurityConfigError(ValueError):
    """A security setting cannot be used: its value, or the file that it names. Holds no secret.

    Attributes:
        key: The setting to correct.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class AuthenticationError(OSError):
    """The other side refused our credentials, or could not prove its own identity.

    It is an OSError so that code that handles a lost connection handles a refused one too.
    """
