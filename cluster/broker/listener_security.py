"""The security of listeners and of connections between brokers, from the configuration."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from cluster.broker.sasl import Identities, own_credentials, sasl_settings
from cluster.broker.tls import tls_listener
from cluster.handlers.api_versions import answer as answer_versions
from cluster.network.dialling import Dial
from cluster.network.endpoints import Endpoint
from cluster.network.listener_security import ListenerSecurity
from cluster.network.secured_link import dial_with_sasl, dial_with_tls
from cluster.security.authentication_log import AuthenticationLog
from cluster.security.jwks import JsonWebKeys
from cluster.security.token_logins import TokenLogins

if TYPE_CHECKING:
    from cluster.broker.addresses import Addresses
    from cluster.broker.key_stores import KeyStores
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.environment.ports import Environment
    from cluster.handlers.context import BrokerContext
    from cluster.network.offloads import Offload
    from timing.clock import Clock


def listener_security(
    config: "BrokerConfig",
    addresses: "Addresses",
    context: "BrokerContext",
    environment: "Environment",
    key_stores: "KeyStores",
) -> Mapping[str, ListenerSecurity]:
    """Return the TLS and SASL that each listener demands of its peers, except PLAINTEXT ones.

    Raises:
        ConfigError: a setting of TLS or SASL cannot be used.
    """
    clock = environment.clock
    log = AuthenticationLog(clock.monotonic)
    return {
        endpoint.listener_name: _of_listener(config, endpoint, context, environment, log, key_stores)
        for endpoint in addresses.bound
        if endpoint.security_protocol.is_encrypted or endpoint.security_protocol.is_sasl
    }


def broker_dial(
    config: "BrokerConfig",
    addresses: "Addresses",
    environment: "Environment",
    key_stores: "KeyStores",
    listener: str,
) -> Dial:
    """Return the dialer for a listener of other brokers: the inter-broker one, or the control plane's.

    Raises:
        ConfigError: a setting of TLS or SASL cannot be used.
    """
    dial: Dial = environment.dial
    protocol = addresses.protocol_of(listener)
    if protocol.is_encrypted:
        key_stores.client(listener)  # a setting that cannot be used stops the start
        dial = dial_with_tls(dial, partial(key_stores.client, listener))
    if protocol.is_sasl:
        credentials = own_credentials(config, listener, environment.clock.wall_ms)
        dial = dial_with_sasl(dial, credentials, f"broker-{config.broker_id}")
    return dial


def _keys(
    context: "BrokerContext",
    clock: "Clock",
    offload: "Offload",
    url: str,
    refresh_s: float,
    retry_s: float,
    retry_max_s: float,
) -> JsonWebKeys:
    """Return the key set at a URL; a task keeps it fresh until the broker ends."""
    keys = JsonWebKeys(
        url,
        refresh_s=refresh_s,
        retry_s=retry_s,
        retry_max_s=retry_max_s,
        monotonic=clock.monotonic,
        offload=offload,
    )
    context.nursery.start_soon(keys.run, name=f"token keys of {url}")
    return keys


def _of_listener(
    config: "BrokerConfig",
    endpoint: Endpoint,
    context: "BrokerContext",
    environment: "Environment",
    log: AuthenticationLog,
    key_stores: "KeyStores",
) -> ListenerSecurity:
    tls = None
    if endpoint.security_protocol.is_encrypted:
        tls = tls_listener(config, endpoint)
        key_stores.serve(endpoint, tls)
        context.key_stores = key_stores
    clock, offload = environment.clock, environment.offload_abandoned
    sasl = None
    if endpoint.security_protocol.is_sasl:
        identities = Identities(
            context.scram.find,
            TokenLogins(context.tokens.tokens).find,
            clock.wall_ms,
            partial(_keys, context, clock, offload),
        )
        sasl = sasl_settings(
            config, endpoint.listener_name, identities, partial(answer_versions, context.served)
        )
    return ListenerSecurity(
        tls,
        sasl,
        config.sasl_server_max_receive_size,
        config.connection_failed_authentication_delay_ms / 1000,
        clock.monotonic,
        log,
    )
