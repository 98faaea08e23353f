"""The key stores and trust stores of a running broker: changed through AlterConfigs, or under their paths.

New connections use the new store in their handshake; existing ones go on. A store that cannot be used, or that Kafka
would refuse (another subject, fewer alternative names, another number of entries), leaves the present one in place.
"""

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from cluster.broker.tls import listener_context, lookup, own_client_context
from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import OWN_PREFIX, base_name, listener_name, own_setting
from cluster.configuration.store_settings import STORE_SETTINGS
from cluster.network.endpoints import Endpoint
from cluster.network.tls_listener import TlsListener
from security.distinguished_name import subject_of
from security.errors import SecurityConfigError
from security.stores import KeyMaterial, Lookup, read_key_store, read_trust_store
from security.tls_context import client_context
from security.tls_session import TlsSession, failure_text

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""How often the files are checked for changes."""
_FLIGHTS_MAX: Final = 10
_LOCATIONS: Final = ("ssl.keystore.location", "ssl.truststore.location")

_Signature = tuple[object, ...]


@dataclass(slots=True)
class _Stores:
    """The TLS contexts of a listener, and the stores that they were made from.

    Attributes:
        material: The key and its certificates.
        trusted: The trusted certificates; None where no store is named.
        signature: The settings, and the files as they were.
        server: For new connections.
        client: For connections to this listener of other brokers, without a check of host names; None for listeners
            that brokers do not connect to.
    """

    material: KeyMaterial
    trusted: str | None
    signature: _Signature
    server: ssl.SSLContext
    client: ssl.SSLContext | None


class KeyStores:
    """The stores of all TLS listeners of a broker.

    Args:
        config: The broker's configuration, whose values change in place.
    """

    def __init__(self, config: "BrokerConfig") -> None:
        self._config = config
        self._listeners: dict[str, tuple[Endpoint, TlsListener]] = {}
        self._stores: dict[str, _Stores] = {}
        self._refused: dict[str, _Signature] = {}
        self._clients: dict[str, ssl.SSLContext] = {}
        self._reading = trio.Lock()

    def serve(self, endpoint: Endpoint, tls: TlsListener) -> None:
        """Keep the certificates of a listener up to date.

        Raises:
            ConfigError: a store cannot be used.
        """
        self._listeners[endpoint.listener_name] = endpoint, tls
        self._stores[endpoint.listener_name] = self._read(self._config, endpoint, tls.context)

    def client(self, listener: str) -> ssl.SSLContext:
        """Return the present TLS context for connections to a listener of other brokers.

        Raises:
            ConfigError: a store cannot be used; raised by the first call only.
        """
        if listener not in self._clients:
            self._clients[listener] = own_client_context(self._config, listener)
        return self._clients[listener]

    async def check(self, values: Mapping[str, str]) -> None:
        """Check the stores that dynamic settings name.

        Args:
            values: The whole dynamic configuration of this broker, passwords plain.

        Raises:
            ConfigError: a store cannot be used, or is not allowed to replace the present one.
        """
        named = {name for name in values if name.startswith(OWN_PREFIX) and base_name(name) in STORE_SETTINGS}
        for name in named:
            listener = listener_name(name.removeprefix(OWN_PREFIX).partition(".")[0])
            if listener not in self._listeners:
                raise ConfigError(name, None, f"a listener with TLS: {listener} is none")
        # A store whose dynamic setting is removed is checked, too: the file's setting applies again.
        candidate = self._config.with_dynamic(values)
        async with self._reading:
            await trio.to_thread.run_sync(self._check, candidate)

    def _check(self, candidate: "BrokerConfig") -> None:
        """Check the stores that a configuration would change; it reads files, so call it in a thread."""
        for name, (endpoint, _) in self._listeners.items():
            if _signature(candidate, name) != self._stores[name].signature:
                self._compare(candidate, endpoint, self._stores[name], self._read(candidate, endpoint))

    async def refresh(self) -> None:
        """Reload the stores whose settings or files have changed; one that cannot be used changes nothing."""
        async with self._reading:
            for name in self._listeners:
                signature = _signature(self._config, name)
                if signature not in (self._stores[name].signature, self._refused.get(name)):
                    await trio.to_thread.run_sync(self._take_over, name, signature)

    def _take_over(self, name: str, signature: _Signature) -> None:
        endpoint, tls = self._listeners[name]
        try:
            stores = self._read(self._config, endpoint)
            self._compare(self._config, endpoint, self._stores[name], stores)
            client = None if stores.client is None else own_client_context(self._config, name)
        except ConfigError as error:
            self._refused[name] = signature
            logger.error("the listener %s keeps its present certificates: %s", name, error)
            return
        self._refused.pop(name, None)
        self._stores[name] = stores
        tls.context = stores.server
        if client is not None:
            self._clients[name] = client
        logger.info("new connections to the listener %s see new certificates", name)

    async def follow_files(self) -> None:
        """Reload stores whose files change, until cancelled."""
        while self._listeners:
            await trio.sleep(LOOK_S)
            await self.refresh()
        await trio.sleep_forever()

    def _read(
        self, config: "BrokerConfig", endpoint: Endpoint, server: ssl.SSLContext | None = None
    ) -> _Stores:
        name = endpoint.listener_name
        signature = _signature(config, name)
        get, prefix = lookup(config, name), own_setting(name, "")
        if server is None:
            server = listener_context(config, endpoint)
        try:
            material = read_key_store(get, prefix)
            trusted = read_trust_store(get, prefix)
            client = None
            if name in (config.inter_broker_listener, config.control_plane_listener):
                client = client_context(_without_names(get), prefix)
        except SecurityConfigError as error:
            raise ConfigError(error.key, None, error.reason) from None
        assert material is not None  # `listener_context` refuses a listener without a key
        return _Stores(material, trusted, signature, server, client)

    def _compare(self, config: "BrokerConfig", endpoint: Endpoint, present: _Stores, new: _Stores) -> None:
        """Check that a store is allowed to replace another.

        Raises:
            ConfigError: it is not.
        """
        name = endpoint.listener_name
        key = own_setting(name, "ssl.keystore")
        if new.material.entries != present.material.entries:
            raise ConfigError(
                key, None, f"a store of {present.material.entries} entries, not {new.material.entries}"
            )
        was, will_be = _certificate(present.material), _certificate(new.material)
        if subject_of(was) != subject_of(will_be) and not config.ssl_allow_dn_changes:
            raise ConfigError(
                key,
                None,
                f"a certificate of {subject_of(was)}, not {subject_of(will_be)}; ssl.allow.dn.changes allows it",
            )
        missing = _alternative_names(was) - _alternative_names(will_be)
        if missing and not config.ssl_allow_san_changes:
            raise ConfigError(
                key,
                None,
                f"a certificate that has {', '.join(sorted(missing))}; ssl.allow.san.changes allows it",
            )
        if (new.trusted is None) != (present.trusted is None):
            raise ConfigError(
                own_setting(name, "ssl.truststore"),
                None,
                "a trust store where there is one, and none where not",
            )
        if new.client is not None and present.client is not None:
            for server, client in ((new, new), (new, present), (present, new)):
                assert client.client is not None
                _shake_hands(key, server.server, client.client)


def _without_names(get: Lookup) -> Lookup:
    return lambda name: "" if name == "ssl.endpoint.identification.algorithm" else get(name)


def _signature(config: "BrokerConfig", listener: str) -> _Signature:
    """Return the settings of a listener's stores, and its files' identities."""
    get = lookup(config, listener)
    files: list[object] = []
    for key in _LOCATIONS:
        location = get(key)
        try:
            found = os.stat(location) if location else None
        except OSError:
            found = None
        files.append(None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns))
    return (*(get(key) for key in sorted(STORE_SETTINGS)), *files)


def _certificate(material: KeyMaterial) -> bytes:
    return ssl.PEM_cert_to_DER_cert(material.certificate)


def _alternative_names(certificate: bytes) -> frozenset[str]:
    from cryptography import x509

    try:
        found = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(each.value) for each in found.value)


def _shake_hands(key: str, server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    """Check that brokers with the old and the new stores can still connect to each other.

    Raises:
        ConfigError: they cannot.
    """
    server = TlsSession(server_side, server_side=True)
    client = TlsSession(client_side, server_side=False)
    try:
        for _ in range(_FLIGHTS_MAX):
            if not client.established:
                client.handshake()
            server.feed(client.outgoing())
            if not server.established:
                server.handshake()
            client.feed(server.outgoing())
            if client.established and server.established:
                return
    except ssl.SSLError as error:
        raise ConfigError(
            key, None, f"stores by which brokers reach each other while they change: {failure_text(error)}"
        ) from None
    raise ConfigError(key, None, "stores by which brokers shake hands: they do not come to an end")
