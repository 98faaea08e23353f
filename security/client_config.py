"""A client's security from Kafka's own keys: ``security.protocol``, ``sasl.*`` and ``ssl.*``."""

import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from security.errors import SecurityConfigError
from security.jaas import parse_jaas
from security.sasl_client import SaslCredentials, credentials_from_jaas
from security.tls_context import client_context

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_IGNORED: Final = frozenset(
    {"ssl.protocol", "ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"}
    | {"ssl.secure.random.implementation", "sasl.kerberos.service.name"}
)
"""Keys of the Java client that have no meaning here and do no harm."""
_SERVED: Final = frozenset(
    {"sasl.mechanism", "sasl.jaas.config"}
    | {
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
    }
    | {f"ssl.keystore.{part}" for part in ("type", "location", "password", "key", "certificate.chain")}
    | {f"ssl.truststore.{part}" for part in ("type", "location", "password", "certificates")}
)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client connects.

    Attributes:
        protocol: ``security.protocol``.
        context: Its TLS; None without.
        credentials: Its SASL credentials; None without SASL.
    """

    protocol: str = "PLAINTEXT"
    context: ssl.SSLContext | None = None
    credentials: SaslCredentials | None = None


PLAINTEXT: Final = ClientSecurity()


def client_security(settings: Mapping[str, str], wall_ms: Callable[[], int]) -> ClientSecurity:
    """Return how a client with these settings connects; keys that do not concern security are ignored.

    Args:
        settings: A client's properties.
        wall_ms: The wall clock, for bearer tokens that the client makes itself.

    Raises:
        SecurityConfigError: a key is not served, contradicts another, or names a store that cannot be read.
    """
    protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise SecurityConfigError(
            "security.protocol", f"expected one of {', '.join(PROTOCOLS)}, not {protocol}"
        )
    for name in settings:
        if name.startswith(("ssl.", "sasl.")) and name not in _SERVED and name not in _IGNORED:
            raise SecurityConfigError(name, "it is not served by this client")
    context = client_context(settings.get) if protocol.endswith("SSL") else None
    credentials = None
    if protocol.startswith("SASL"):
        mechanism = settings.get("sasl.mechanism", "GSSAPI").strip()
        text = settings.get("sasl.jaas.config")
        if mechanism != "GSSAPI" and text is None:
            raise SecurityConfigError("sasl.jaas.config", f"it is missing, and {mechanism} needs it")
        entry = parse_jaas(text or "none required;")
        credentials = credentials_from_jaas(mechanism, entry, lambda: secrets.token_urlsafe(24), wall_ms)
    return ClientSecurity(protocol, context, credentials)


def read_client_properties(path: Path) -> dict[str, str]:
    """Read a client's properties file.

    Raises:
        OSError: it cannot be read.
        SecurityConfigError: it is no properties file.
    """
    import javaproperties  # it costs start-up time

    try:
        with path.open(encoding="utf-8") as file:
            found: dict[str, str] = javaproperties.load(file)
    except ValueError as error:
        raise SecurityConfigError(str(path), f"it is no properties file: {error}") from None
    return found
