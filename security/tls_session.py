"""One side of a TLS connection over bytes: ciphertext in and out, plain bytes out and in; no socket.

Read until `read_into` returns None: a socket's readiness says nothing about the data that OpenSSL still holds. After
each call, send what `outgoing` returns: handshake messages, session tickets, answers to key updates and alerts,
besides what `write` encrypted.
"""

import ssl
from typing import Final

RECORD_SIZE: Final = 16 * 1024

_REASONS: Final = {
    "HTTP_REQUEST": "HTTP was spoken to a TLS port",
    "WRONG_VERSION_NUMBER": "no TLS was spoken: the other side may expect PLAINTEXT or SASL_PLAINTEXT",
    "UNSUPPORTED_PROTOCOL": "no common version of TLS",
    "NO_SHARED_CIPHER": "no common cipher suite",
    "NO_PROTOCOLS_AVAILABLE": "no common version of TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate was shown, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust our certificate's authority",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side says that our certificate has expired",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side demands a certificate of ours, and we showed none",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other side refuses the handshake: a version, a suite or a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side does not speak this version of TLS",
}
_VERIFY: Final = {
    10: "the certificate has expired",
    9: "the certificate is not valid yet",
    18: "the certificate is self-signed and not among the trusted ones",
    19: "the certificate's authority is not among the trusted ones",
    20: "the certificate's authority is not among the trusted ones",
    26: "the certificate is not meant for this purpose",
    62: "the certificate is not made out for this host name",
    64: "the certificate is not made out for this address",
}


class TlsSession:
    """A connection's TLS.

    Args:
        context: The certificates and rules.
        server_side: Whether we are the server.
        server_hostname: For a client, the name that the server's certificate must be issued for, and that the server
            receives (SNI).

    Attributes:
        established: Whether the handshake is complete.
    """

    __slots__ = ("_incoming", "_outgoing", "_tls", "established")

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self.established = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take ciphertext of the other side."""
        self._incoming.write(data)

    def feed_end(self) -> None:
        """Take note that the other side sends no more."""
        self._incoming.write_eof()

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is complete.

        Raises:
            ssl.SSLError: it failed; `failure_text` says why. An alert may still have to be sent.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.established = True
        return True

    def read_into(self, space: memoryview) -> int | None:
        """Decrypt received bytes into `space`, as far as they fit.

        A record is 16 KiB at most, and each call of OpenSSL returns one: the loop is here because a caller's work
        between two records costs as much as the cipher.

        Returns:
            How many bytes; None where more ciphertext is needed for the first one, 0 at the end. An end after some
            bytes is returned by the next call.

        Raises:
            ssl.SSLError: the other side violates TLS. Bytes decrypted earlier in the same call are lost, as is the
                connection.
        """
        read = self._tls.read
        size = len(space)
        filled = 0
        try:
            while filled < size:
                count: int = read(size - filled, space[filled:])  # type: ignore[assignment]  # with a buffer, a count
                if not count:
                    break
                filled += count
                if not self._incoming.pending:
                    break  # an exception would say the same, and costs more than the question
        except ssl.SSLWantReadError:
            return filled or None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return filled
        return filled

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt all of `data`, which `outgoing` then returns."""
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]

    @property
    def outgoing_size(self) -> int:
        """How much ciphertext is to be sent."""
        return self._outgoing.pending

    def outgoing(self) -> bytes:
        """Return the ciphertext that is to be sent."""
        return self._outgoing.read()

    def close(self) -> None:
        """End our side of the session; `outgoing` then returns the close_notify."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError, OSError):
            pass  # the answer to it is not waited for

    def peer_certificate(self) -> bytes | None:
        """Return the certificate of the other side in DER; None where it showed none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """The version of TLS, such as ``TLSv1.3``; empty before the handshake."""
        return self._tls.version() or ""


def failure_text(error: ssl.SSLError) -> str:
    """Return a sentence on why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY.get(error.verify_code, f"the certificate is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "the other side ended the connection during the handshake"
    return _REASONS.get(error.reason or "", f"TLS failed: {(error.reason or str(error)).lower()}")
