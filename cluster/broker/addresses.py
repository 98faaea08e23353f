"""Where a broker listens and what it advertises, from its configuration."""

import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from cluster.configuration.errors import ConfigError
from cluster.network.address_limits import AddressLimitError, parse_address_limits
from cluster.network.endpoints import (
    Endpoint,
    EndpointError,
    SecurityProtocol,
    parse_advertised_listeners,
    parse_listeners,
    parse_protocol_map,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.configuration.broker_config import BrokerConfig

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Addresses:
    """The endpoints of one broker.

    Attributes:
        bound: Where it listens.
        advertised: What others connect to; a port 0 stands for the one that was bound.
        inter_broker: The listener on which brokers talk to each other.
        control_plane: The listener to which the controller sends its requests, if not the inter-broker one.
    """

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    control_plane: str | None = None

    @property
    def controller(self) -> str:
        """The listener to which the controller sends its requests."""
        return self.control_plane or self.inter_broker

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """Return the security protocol of an advertised listener."""
        return next(each.security_protocol for each in self.advertised if each.listener_name == listener)

    def with_bound_ports(self, bound_port: "Callable[[str], int]") -> "Addresses":
        """Return the addresses with each port 0 replaced by the one that was bound."""
        return replace(
            self,
            advertised=tuple(
                endpoint if endpoint.port else replace(endpoint, port=bound_port(endpoint.listener_name))
                for endpoint in self.advertised
            ),
        )


def addresses_of(config: "BrokerConfig") -> Addresses:
    """Read and check the listeners of a configuration.

    Raises:
        ConfigError: a listener is malformed, not served, not reachable by others, or inconsistent with the other
            settings.
    """
    protocols = _read(
        "listener.security.protocol.map", config.listener_security_protocol_map, parse_protocol_map
    )
    bound = _read("listeners", config.listeners, lambda text: parse_listeners(text, protocols))
    if "advertised.listeners" in config.originals:
        advertised = _read(
            "advertised.listeners",
            config.advertised_listeners,
            lambda text: parse_advertised_listeners(text, protocols),
        )
    else:
        advertised = [_told_as_bound(endpoint) for endpoint in bound]
    names = {endpoint.listener_name for endpoint in bound}
    for endpoint in advertised:
        if endpoint.listener_name not in names:
            raise ConfigError(
                "advertised.listeners",
                config.advertised_listeners,
                f"a listener of `listeners`: {sorted(names)}",
            )
    _read("max.connections.per.ip.overrides", config.max_connections_per_ip_overrides, parse_address_limits)
    inter_broker = _inter_broker(config, advertised)
    control_plane = _control_plane(config, advertised, inter_broker)
    return Addresses(tuple(bound), tuple(advertised), inter_broker, control_plane)


def _inter_broker(config: "BrokerConfig", advertised: "list[Endpoint]") -> str:
    name = config.inter_broker_listener
    if name not in {endpoint.listener_name for endpoint in advertised}:
        is_named = config.inter_broker_listener_name is not None
        setting = "inter.broker.listener.name" if is_named else "security.inter.broker.protocol"
        known = ", ".join(endpoint.listener_name for endpoint in advertised)
        raise ConfigError(setting, name, f"the name of an advertised listener: {known}")
    return name


def _control_plane(config: "BrokerConfig", advertised: "list[Endpoint]", inter_broker: str) -> str | None:
    name = config.control_plane_listener
    if name is None:
        return None
    setting = "control.plane.listener.name"
    if name == inter_broker:
        raise ConfigError(setting, name, "another listener than the one that brokers use among themselves")
    if name not in {endpoint.listener_name for endpoint in advertised}:
        known = ", ".join(endpoint.listener_name for endpoint in advertised)
        raise ConfigError(setting, name, f"the name of an advertised listener: {known}")
    return name


def _told_as_bound(endpoint: Endpoint) -> Endpoint:
    """Return the advertised endpoint of a listener that `advertised.listeners` leaves out: its own address."""
    if not endpoint.host:
        return replace(endpoint, host=socket.getfqdn())
    try:
        parse_advertised_listeners(str(endpoint), {endpoint.listener_name: endpoint.security_protocol})
    except EndpointError:
        raise ConfigError(
            "advertised.listeners",
            None,
            f"an address that others can connect to, because listeners has {endpoint}",
        ) from None
    return endpoint


def _read(name: str, text: str, parse: "Callable[[str], _T]") -> _T:
    try:
        return parse(text)
    except (EndpointError, AddressLimitError) as error:
        raise ConfigError(name, text, f"another value: {error}") from None
