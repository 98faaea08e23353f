"""The TLS of one listener: makes the sessions of its connections, and names their peers."""

import ssl
from typing import Final

import trio

from cluster.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from cluster.security.principal_mapping import NoMappingError, PrincipalMapping
from security.der import DerError
from security.distinguished_name import subject_of
from security.tls_session import TlsSession

RECEIVE_SIZE: Final = 256 * 1024
HANDSHAKES_PER_TURN: Final = 4
"""How many handshakes compute before other tasks get their turn: each takes up to 2 ms."""


class UnnamedPeerError(Exception):
    """A peer's certificate is valid, but yields no principal."""


class TlsListener:
    """The TLS of one listener.

    Args:
        context: The certificates and rules for new connections; replaced when the key store changes.
        mapping: Turns the subject of a client's certificate into a principal's name.
        names_peers: Whether the certificate identifies the peer; on a SASL listener it does not.

    Attributes:
        context: As above.
        turns: Bounds the handshakes that compute at a time.
        scratch: A buffer to receive ciphertext into; its content is never kept across a task switch.
    """

    def __init__(self, context: ssl.SSLContext, mapping: PrincipalMapping, *, names_peers: bool) -> None:
        self.context = context
        self.turns = trio.CapacityLimiter(HANDSHAKES_PER_TURN)
        self.scratch = memoryview(bytearray(RECEIVE_SIZE))
        self._mapping = mapping
        self._names_peers = names_peers

    def session(self) -> TlsSession:
        """Return the TLS of a new connection."""
        return TlsSession(self.context, server_side=True)

    def principal_of(self, session: TlsSession) -> KafkaPrincipal:
        """Return the principal of a peer whose handshake is complete.

        Raises:
            UnnamedPeerError: the subject of its certificate is malformed, or no mapping rule matches it.
        """
        certificate = session.peer_certificate() if self._names_peers else None
        if certificate is None:
            return ANONYMOUS
        try:
            return KafkaPrincipal(USER_TYPE, self._mapping.name_of(subject_of(certificate)))
        except (DerError, NoMappingError) as error:
            raise UnnamedPeerError(str(error)) from None
