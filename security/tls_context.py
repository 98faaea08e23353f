"""TLS contexts from Kafka's ``ssl.*`` keys, for either side.

OpenSSL takes a private key from a path only; it gets the path of a file in memory, so that no key touches a disk.
"""

import os
import re
import ssl
from typing import Final

from security.errors import SecurityConfigError
from security.stores import KeyMaterial, Lookup, read_key_store, read_trust_store

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
DEFAULT_PROTOCOLS: Final = "TLSv1.2,TLSv1.3"
_CLIENT_AUTH: Final = {
    "required": ssl.CERT_REQUIRED,
    "requested": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
}
_SUITES_13: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The suites of TLS 1.3 that OpenSSL enables; Python cannot choose among them."""
_SUITE_12: Final = re.compile(r"TLS_(\w+?)_WITH_(\w+)")


def server_context(get: Lookup, client_auth: str, prefix: str = "") -> ssl.SSLContext:
    """Return the TLS context of a listener.

    Args:
        get: The settings, by their names without a listener's prefix.
        client_auth: ``ssl.client.auth``: required, requested or none.
        prefix: The listener's prefix, for errors.

    Raises:
        SecurityConfigError: a setting or a store cannot be used, or there is no key store.
    """
    material = read_key_store(get, prefix)
    if material is None:
        raise SecurityConfigError(f"{prefix}ssl.keystore.location", "a TLS listener needs a key store")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, get, prefix)
    context.num_tickets = 1
    _load_key(context, material, prefix)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, get, prefix)
    return context


def client_context(get: Lookup, prefix: str = "") -> ssl.SSLContext:
    """Return the TLS context of connections to a server; the server's certificate is always checked.

    Args:
        get: The settings.
        prefix: The prefix of ``ssl.`` in the keys that errors name.

    Raises:
        SecurityConfigError: a setting or a store cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, get, prefix)
    algorithm = get("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.strip().lower() not in ("https", ""):
        raise SecurityConfigError(
            f"{prefix}ssl.endpoint.identification.algorithm", f"expected https or nothing, not {algorithm}"
        )
    context.check_hostname = algorithm is None or bool(algorithm.strip())
    material = read_key_store(get, prefix)
    if material is not None:
        _load_key(context, material, prefix)
    _trust(context, get, prefix)
    return context


def _restrict(context: ssl.SSLContext, get: Lookup, prefix: str) -> None:
    """Set protocol versions and cipher suites; disable compression and renegotiation."""
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    given = get("ssl.enabled.protocols") or DEFAULT_PROTOCOLS
    names = {name.strip() for name in given.split(",") if name.strip()}
    unknown = names - VERSIONS.keys()
    if unknown or not names:
        raise SecurityConfigError(
            f"{prefix}ssl.enabled.protocols", f"expected some of {', '.join(VERSIONS)}, not {given}"
        )
    versions = sorted(VERSIONS[name] for name in names)
    lowest, highest = versions[0], versions[-1]
    suites = [suite.strip() for suite in (get("ssl.cipher.suites") or "").split(",") if suite.strip()]
    if suites:
        new = {suite for suite in suites if suite in _SUITES_13}
        old = [suite for suite in suites if suite not in _SUITES_13]
        if new and new != _SUITES_13 and highest is ssl.TLSVersion.TLSv1_3:
            raise SecurityConfigError(
                f"{prefix}ssl.cipher.suites",
                f"the suites of TLS 1.3 are served all together or not at all; {', '.join(sorted(_SUITES_13 - new))} "
                "is left out",
            )
        # As in Java, a version for which no suite is listed is not offered.
        if not new:
            highest = min(highest, ssl.TLSVersion.TLSv1_2)
        if not old:
            lowest = max(lowest, ssl.TLSVersion.TLSv1_3)
        if lowest > highest:
            raise SecurityConfigError(
                f"{prefix}ssl.cipher.suites", "no suite fits a protocol of ssl.enabled.protocols"
            )
        if old:
            _set_suites(context, old, prefix)
    context.minimum_version, context.maximum_version = lowest, highest


def _set_suites(context: ssl.SSLContext, suites: list[str], prefix: str) -> None:
    for suite in suites:
        try:
            context.set_ciphers(openssl_name(suite))
        except (ssl.SSLError, ValueError):
            raise SecurityConfigError(
                f"{prefix}ssl.cipher.suites", f"the suite {suite} is not served"
            ) from None
    context.set_ciphers(":".join(openssl_name(suite) for suite in suites))


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite that the settings name as IANA and Java do.

    Raises:
        ValueError: the name does not have that form.
    """
    match = _SUITE_12.fullmatch(suite)
    if match is None:
        raise ValueError(f"{suite} is no cipher suite")
    exchange, cipher = match.groups()
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("_", "-")
    cipher = cipher.replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def _load_key(context: ssl.SSLContext, material: KeyMaterial, prefix: str) -> None:
    descriptor = os.memfd_create("ottla-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, material.pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=material.password or _no_password)
    except ssl.SSLError as error:
        reason = {
            "KEY_VALUES_MISMATCH": "the private key does not belong to the certificate",
            "BAD_DECRYPT": "ssl.key.password is wrong",
        }.get(error.reason or "", f"the key or the certificate cannot be used ({error.reason})")
        raise SecurityConfigError(f"{prefix}ssl.keystore", reason) from None
    finally:
        os.close(descriptor)


def _no_password() -> str:
    """Keep OpenSSL from asking for a password at the terminal."""
    return ""


def _trust(context: ssl.SSLContext, get: Lookup, prefix: str) -> None:
    """Load the trusted certificates; without a trust store, the system's."""
    trusted = read_trust_store(get, prefix)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError):
        raise SecurityConfigError(f"{prefix}ssl.truststore", "a trusted certificate cannot be read") from None
