"""SASL from the client's side: what a mechanism sends and how it judges the answers. No I/O."""

from typing import Protocol

from ottla.client.errors import AuthenticationError


class Exchange(Protocol):
    """One authentication under way."""

    def first(self) -> bytes:
        """Return the first message."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to the broker's message, None where nothing is to be sent any more.

        Raises:
            AuthenticationError: The broker's message proves that it does not know the secret, or is malformed.
        """
        ...


class Mechanism(Protocol):
    """A SASL mechanism with its credentials; each connection begins an exchange of its own."""

    @property
    def name(self) -> str:
        """The mechanism's name in SaslHandshake."""
        ...

    def begin(self) -> Exchange:
        """Begin an authentication."""
        ...


class Plain:
    """SASL/PLAIN (RFC 4616): user name and password as they are; use it over TLS only.

    Args:
        username: The user to authenticate as.
        password: Its password.
    """

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if not username or not password or "\0" in username + password:
            raise ValueError("user name and password are neither empty nor contain NUL")
        self._message = f"\0{username}\0{password}".encode()

    def __repr__(self) -> str:
        return "Plain(...)"

    def begin(self) -> Exchange:
        """Begin an authentication."""
        return _PlainExchange(self._message)


class _PlainExchange:
    def __init__(self, message: bytes) -> None:
        self._message = message

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationError("the broker answers PLAIN with a challenge")
        return None
