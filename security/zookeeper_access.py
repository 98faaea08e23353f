"""How ZooKeeper is reached: TLS, a user, and whether znodes get access control lists.

The guardian gets a copy of it, so this module imports neither kazoo nor trio, and loads ``ssl`` only where it is used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from security.errors import SecurityConfigError

if TYPE_CHECKING:
    import ssl

    from security.stores import Lookup

JAAS_CONFIG: Final = "ottla.zookeeper.jaas.config"
SET_ACL: Final = "zookeeper.set.acl"
_ENABLED: Final = "zookeeper.ssl.client.enable"
_KEY_STORE: Final = (
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
)
_TRUST_STORE: Final = (
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
)
_DIGEST_MODULES: Final = frozenset({"org.apache.zookeeper.server.auth.DigestLoginModule"})
_TYPES: Final = {"jks": "JKS", "p12": "PKCS12", "pfx": "PKCS12", "pem": "PEM"}
"""A store's type by its file's extension, as ZooKeeper's client has it."""


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """How one broker, or one command, reaches ZooKeeper.

    Attributes:
        tls: The settings of the TLS context, with the stores as text; None without TLS.
        user: The user that logs in by DIGEST-MD5; empty for no login.
        password: The user's.
        protects: Whether znodes are created with access control lists (``zookeeper.set.acl``).
    """

    tls: Mapping[str, str] | None = field(default=None, repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    protects: bool = False

    def context(self) -> "ssl.SSLContext | None":
        """Return the TLS context of connections; None without TLS.

        Raises:
            SecurityConfigError: a setting cannot be used.
        """
        if self.tls is None:
            return None
        from security.tls_context import client_context

        return client_context(self.tls.get, "zookeeper.")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; secrets are among them."""
        return {"tls": self.tls, "user": self.user, "password": self.password}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ZooKeeperAccess":
        """Read back what `to_json` returned: what closing a session needs."""
        return cls(value["tls"], value["user"], value["password"])


OPEN: Final = ZooKeeperAccess()


def zookeeper_access(get: "Lookup") -> ZooKeeperAccess:
    """Return the access that the settings ask for; stores are read now.

    Args:
        get: The settings by their names, such as ``zookeeper.ssl.client.enable``.

    Raises:
        SecurityConfigError: a setting or a store cannot be used, or nobody would own the protected znodes.
    """
    tls = _tls_settings(get) if _is_true(get, _ENABLED) else None
    user, password = _login(get)
    protects = _is_true(get, SET_ACL)
    if protects and not user and not (tls is not None and "ssl.keystore.key" in tls):
        raise SecurityConfigError(
            SET_ACL,
            f"the znodes need an owner: a user in {JAAS_CONFIG}, or TLS with zookeeper.ssl.keystore.location",
        )
    return ZooKeeperAccess(tls, user, password, protects)


def _is_true(get: "Lookup", key: str) -> bool:
    return (get(key) or "false").strip().lower() == "true"


def _login(get: "Lookup") -> tuple[str, str]:
    text = get(JAAS_CONFIG)
    if text is None or not text.strip():
        return "", ""
    from security.jaas import parse_jaas

    entry = parse_jaas(text, JAAS_CONFIG)
    if entry.module not in _DIGEST_MODULES:
        raise SecurityConfigError(
            JAAS_CONFIG, f"expected {min(_DIGEST_MODULES)}, not {entry.module}; Kerberos is not served"
        )
    user, password = entry.options.get("username", ""), entry.options.get("password", "")
    if not user or not password:
        raise SecurityConfigError(JAAS_CONFIG, "username and password are needed")
    return user, password


def _tls_settings(get: "Lookup") -> dict[str, str]:
    """Translate the ``zookeeper.ssl.*`` settings into those of a client, with the stores read into text."""
    from security.stores import read_key_store, read_trust_store

    for key in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if _is_true(get, key):
            raise SecurityConfigError(key, "revocation is not checked; expected false")
    settings = {
        # As in Kafka, one version unless more are listed.
        "ssl.enabled.protocols": get("zookeeper.ssl.enabled.protocols")
        or get("zookeeper.ssl.protocol")
        or "TLSv1.2"
    }
    suites = get("zookeeper.ssl.cipher.suites")
    if suites:
        settings["ssl.cipher.suites"] = suites
    algorithm = get("zookeeper.ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        settings["ssl.endpoint.identification.algorithm"] = algorithm
    material = read_key_store(_store(get, _KEY_STORE, "ssl.keystore"), "zookeeper.")
    if material is not None:
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": material.pem,
            "ssl.keystore.certificate.chain": material.pem,
        }
        if material.password is not None:
            settings["ssl.key.password"] = material.password
    trusted = read_trust_store(_store(get, _TRUST_STORE, "ssl.truststore"), "zookeeper.")
    if trusted is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    return settings


def _store(get: "Lookup", keys: Iterable[str], name: str) -> "Lookup":
    """Return the settings of one store under the names that brokers' listeners have for them."""
    location, password, kind = map(get, keys)
    if not kind and location:
        kind = _TYPES.get(location.rpartition(".")[2].lower())
    found = {f"{name}.location": location, f"{name}.type": kind}
    if (kind or "").upper() == "PEM":
        found["ssl.key.password"] = password
    else:
        found[f"{name}.password"] = password
    return found.get
