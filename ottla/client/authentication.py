"""Credentials for SASL: what `connect(sasl=...)` takes."""

import secrets
from collections.abc import Callable
from functools import partial

from security.sasl_client import (
    OAUTHBEARER,
    PLAIN,
    OauthBearerClient,
    PlainClient,
    SaslClient,
    SaslCredentials,
)
from security.scram import ScramClient, ScramMechanism


def plain(username: str, password: str) -> SaslCredentials:
    """Return credentials for SASL/PLAIN (RFC 4616): sent as they are, so use them over TLS only."""
    if not username or not password or "\0" in username + password:
        raise ValueError("user name and password are neither empty nor contain NUL")
    return SaslCredentials(PLAIN, partial(PlainClient, username, password))


def scram(
    username: str, password: str, mechanism: ScramMechanism | str = ScramMechanism.SHA_256
) -> SaslCredentials:
    """Return credentials for SCRAM (RFC 5802); the broker must prove that it knows the password's keys.

    Args:
        username: The user.
        password: The password.
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
    """
    chosen = ScramMechanism(mechanism)

    def make() -> SaslClient:
        return ScramClient(chosen, username, password, secrets.token_hex(16))

    return SaslCredentials(chosen.value, make)


def oauth_bearer(token: Callable[[], str]) -> SaslCredentials:
    """Return credentials for OAUTHBEARER (RFC 7628).

    Args:
        token: Returns a token that is valid now; called for each connection, it must not wait.
    """

    def make() -> SaslClient:
        return OauthBearerClient(token())

    return SaslCredentials(OAUTHBEARER, make)
