"""Delegation tokens as SCRAM users: the user is a token's id, the password its HMAC in base64 (KIP-48).

The credential of a token is derived at its first login, and kept: deriving those of all tokens when they are read, as
Kafka does, would cost two key derivations for each. An expired token that has not been removed yet still passes; its
session ends at once, so that its first request closes the connection.
"""

import secrets
from collections import OrderedDict
from typing import Final

from cluster.security.delegation_tokens import DelegationTokens
from cluster.security.sasl_mechanisms import TokenLogin
from security.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism, make_credential

CREDENTIALS_MAX: Final = 10_000
"""How many derived credentials are kept; the least recently used are dropped."""
_SALT_BYTES: Final = 24


class TokenLogins:
    """Finds the logins of tokens.

    Args:
        tokens: The tokens.
    """

    __slots__ = ("_credentials", "_tokens")

    def __init__(self, tokens: DelegationTokens) -> None:
        self._tokens = tokens
        self._credentials: OrderedDict[tuple[ScramMechanism, bytes], ScramCredential] = OrderedDict()

    def find(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return a token's login as a SCRAM user; None if there is no such token."""
        token = self._tokens.find(token_id)
        if token is None:
            return None
        key = (mechanism, token.hmac)
        credential = self._credentials.pop(key, None)
        if credential is None:
            salt = secrets.token_bytes(_SALT_BYTES)
            credential = make_credential(mechanism, token.password, salt, ITERATIONS_MIN)
        self._credentials[key] = credential
        if len(self._credentials) > CREDENTIALS_MAX:
            self._credentials.popitem(last=False)
        return TokenLogin(credential, token.owner, token.expires_ms)
