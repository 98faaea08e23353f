"""A client of single requests over TLS and SCRAM, for requests that no client library sends."""

import secrets
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from security.sasl_client import SaslCredentials, authenticate
from security.scram import ScramClient, ScramMechanism
from tests.raw_client import RawClient


class SecuredPeer(RawClient):
    """One authenticated connection, one request at a time. A context manager.

    Args:
        address: ``host:port`` of a SASL_SSL listener.
        authority: The certificate to trust.
        user: A SCRAM-SHA-512 user, or the id of a delegation token.
        password: The user's password, or the token's HMAC in base64.
        by_token: Whether the login is by a delegation token.

    Raises:
        security.errors.AuthenticationError: the broker refuses the login.
        OSError: it closes the connection.
    """

    def __init__(
        self, address: str, authority: Path, user: str, password: str, *, by_token: bool = False
    ) -> None:
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=60)
        context = ssl.create_default_context(cafile=str(authority))
        self.socket = context.wrap_socket(plain, server_hostname=host)
        extensions: Mapping[str, str] = {"tokenauth": "true"} if by_token else {}
        mechanism = ScramMechanism.SHA_512
        credentials = SaslCredentials(
            mechanism.value,
            lambda: ScramClient(mechanism, user, password, secrets.token_urlsafe(18), dict(extensions)),
        )
        exchange = authenticate(credentials, "peer")
        try:
            frame = next(exchange)
            while True:
                self.socket.sendall(frame)
                frame = exchange.send(self.read_frame())
        except StopIteration:
            pass
        except BaseException:
            self.close()
            raise
