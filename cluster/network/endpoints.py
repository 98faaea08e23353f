"""Where a broker listens and what it advertises: Kafka's ``listeners`` and ``advertised.listeners``.

A listener is written ``NAME://host:port``. An empty host binds every interface; IPv6 addresses are in brackets. The
security protocol of a name comes from ``listener.security.protocol.map``, or is the name itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cluster.configuration.listener_names import listener_name


class SecurityProtocol(Enum):
    """How a listener's bytes are protected and its peers identified; the value is Kafka's id for it."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS carries the bytes."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        """Whether a peer has to pass SASL before its first request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


DEFAULT_PROTOCOLS: Final[Mapping[str, SecurityProtocol]] = {
    protocol.name: protocol for protocol in SecurityProtocol
}
"""The protocol map if none is configured: each protocol is a listener name too."""

UNROUTABLE_HOSTS: Final = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})


class EndpointError(ValueError):
    """A listener, or the map of security protocols, is not written as Kafka has it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place where a broker is reached.

    Attributes:
        listener_name: The listener's name, upper case.
        host: The host to bind or to advertise; empty binds every interface.
        port: The TCP port; 0 binds any free one.
        security_protocol: How the bytes are protected.
    """

    listener_name: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Read ``listener.security.protocol.map``: ``NAME:PROTOCOL,NAME:PROTOCOL``.

    Raises:
        EndpointError: an entry has no colon or an unknown protocol, or a name occurs twice.
    """
    protocols: dict[str, SecurityProtocol] = {}
    for entry in _entries(text):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        name = listener_name(name)
        if not colon or not name:
            raise EndpointError(f"{entry!r} is not NAME:PROTOCOL")
        if name in protocols:
            raise EndpointError(f"the listener name {name} stands twice in the protocol map")
        try:
            protocols[name] = SecurityProtocol[protocol.upper()]
        except KeyError:
            known = ", ".join(SecurityProtocol.__members__)
            raise EndpointError(f"{protocol!r} is no security protocol; {known} are") from None
    return protocols


def parse_endpoint(text: str, protocols: Mapping[str, SecurityProtocol] = DEFAULT_PROTOCOLS) -> Endpoint:
    """Read one ``NAME://host:port``.

    Raises:
        EndpointError: it is malformed, or the name has no security protocol.
    """
    name, mark, address = text.strip().partition("://")
    host, colon, port_text = address.rpartition(":")
    name = listener_name(name)
    if not mark or not name or not colon:
        raise EndpointError(f"{text!r} is not NAME://host:port")
    if not port_text.isascii() or not port_text.isdigit() or int(port_text) > 65535:
        raise EndpointError(f"{text!r} has no port between 0 and 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise EndpointError(f"{text!r}: an IPv6 address stands in brackets")
    protocol = protocols.get(name)
    if protocol is None:
        raise EndpointError(f"listener.security.protocol.map has no protocol for the listener name {name}")
    return Endpoint(name, host, int(port_text), protocol)


def parse_listeners(
    text: str, protocols: Mapping[str, SecurityProtocol] = DEFAULT_PROTOCOLS
) -> list[Endpoint]:
    """Read ``listeners``: endpoints with distinct names, and distinct ports unless 0.

    Two listeners may share a port where one is bound to IPv4 and the other to IPv6, as in Kafka.

    Raises:
        EndpointError: an endpoint is malformed, a name or a port occurs twice, or there is none.
    """
    endpoints = [parse_endpoint(entry, protocols) for entry in _entries(text)]
    if not endpoints:
        raise EndpointError("at least one listener is needed")
    _require_distinct_names(endpoints)
    ports: dict[tuple[int, bool], Endpoint] = {}
    for endpoint in endpoints:
        key = (endpoint.port, ":" in endpoint.host)
        if endpoint.port != 0 and key in ports:
            raise EndpointError(f"{ports[key]} and {endpoint} share a port")
        ports[key] = endpoint
    return endpoints


def parse_advertised_listeners(
    text: str, protocols: Mapping[str, SecurityProtocol] = DEFAULT_PROTOCOLS
) -> list[Endpoint]:
    """Read ``advertised.listeners``, which clients and brokers connect to.

    Raises:
        EndpointError: an endpoint is malformed, a name occurs twice, or a host is one that nobody can connect to.
    """
    endpoints = [parse_endpoint(entry, protocols) for entry in _entries(text)]
    if not endpoints:
        raise EndpointError("at least one advertised listener is needed")
    _require_distinct_names(endpoints)
    for endpoint in endpoints:
        if endpoint.host in UNROUTABLE_HOSTS:
            raise EndpointError(
                f"{endpoint}: nobody can connect to {endpoint.host}; advertise a real host name"
            )
    return endpoints


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _require_distinct_names(endpoints: Sequence[Endpoint]) -> None:
    seen: dict[str, Endpoint] = {}
    for endpoint in endpoints:
        earlier = seen.setdefault(endpoint.listener_name, endpoint)
        if earlier is not endpoint:
            raise EndpointError(f"{earlier} and {endpoint} share a name")
