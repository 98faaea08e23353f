"""The TLS of each listener, and of connections to other brokers, from the configuration."""

import ssl
from typing import TYPE_CHECKING, Final

from cluster.configuration.broker_config import text_of
from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import own_setting
from cluster.network.endpoints import Endpoint
from cluster.network.tls_listener import TlsListener
from cluster.security.principal_mapping import MappingRuleError, PrincipalMapping
from security.errors import SecurityConfigError
from security.stores import Lookup
from security.tls_context import client_context, server_context

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

CLIENT_AUTH: Final = "ssl.client.auth"
MAPPING: Final = "ssl.principal.mapping.rules"


def tls_listener(config: "BrokerConfig", endpoint: Endpoint) -> TlsListener:
    """Return the TLS of an encrypted listener.

    Raises:
        ConfigError: a setting, a store or a password cannot be used.
    """
    rules = text_of(config.of_listener(endpoint.listener_name, MAPPING))
    try:
        mapping = PrincipalMapping(rules)
    except MappingRuleError as error:
        raise ConfigError(MAPPING, rules, str(error)) from None
    context = listener_context(config, endpoint)
    return TlsListener(context, mapping, names_peers=not endpoint.security_protocol.is_sasl)


def listener_context(config: "BrokerConfig", endpoint: Endpoint) -> ssl.SSLContext:
    """Return the TLS context for new connections of a listener, from the present settings and files.

    Raises:
        ConfigError: a setting, a store or a password cannot be used.
    """
    listener = endpoint.listener_name
    client_auth: object = config.of_listener(listener, CLIENT_AUTH)
    if endpoint.security_protocol.is_sasl:
        # As in Kafka: where SASL names the peer, the broker-wide key asks nobody for a certificate.
        client_auth = config.own_of_listener(listener, CLIENT_AUTH) or "none"
    try:
        return server_context(lookup(config, listener), str(client_auth), own_setting(listener, ""))
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, error.reason) from None


def own_client_context(config: "BrokerConfig", listener: str) -> ssl.SSLContext:
    """Return the TLS context for connections to a listener of other brokers.

    Raises:
        ConfigError: a setting, a store or a password cannot be used.
    """
    try:
        return client_context(lookup(config, listener), own_setting(listener, ""))
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, error.reason) from None


def lookup(config: "BrokerConfig", listener: str) -> Lookup:
    """Return a lookup of the ``ssl.*`` settings of a listener: its own, else the broker's."""

    def find(name: str) -> str | None:
        value = config.of_listener(listener, name)
        return None if value is None else text_of(value)

    return find
