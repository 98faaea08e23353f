"""The identity of a peer, as rules, quotas and log lines name it: Kafka's ``KafkaPrincipal``.

Types and names are compared exactly: ``user:alice`` and ``User:Alice`` are not ``User:alice``.
"""

from dataclasses import dataclass, field
from typing import Final

USER_TYPE: Final = "User"


class PrincipalError(ValueError):
    """A principal's text is not ``type:name``."""


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """An authenticated identity, or `ANONYMOUS`.

    Attributes:
        type: The kind of principal; always ``User`` from Kafka's own builder.
        name: The name within that kind.
        token_authenticated: Whether a delegation token proved it. It takes no part in comparisons.
    """

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""An unauthenticated peer: on a PLAINTEXT listener, or on an SSL one without a certificate."""


def parse_principal(text: str) -> KafkaPrincipal:
    """Read ``type:name``, split at the first colon; both parts are kept unchanged.

    Raises:
        PrincipalError: there is no colon, or one of the parts is empty.
    """
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise PrincipalError(f"expected a principal as type:name, not {text!r}")
    return KafkaPrincipal(kind, name)
