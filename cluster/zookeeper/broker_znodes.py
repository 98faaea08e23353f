"""`/brokers/ids` and `/brokers/seqid`: which brokers are live and where they listen, and new broker ids."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.configuration.listener_names import listener_name
from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import NO_BROKER_EPOCH, NO_TIMESTAMP, BrokerEpoch, BrokerId, WallMs

_ENDPOINT = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class RegisteredEndpoint:
    """An address a broker advertises.

    Attributes:
        listener_name: In upper case.
        host: Empty where the broker advertises none.
        port: 0 to 65535.
        security_protocol: Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    """

    listener_name: str
    host: str
    port: int
    security_protocol: str

    @property
    def text(self) -> str:
        """The endpoint as Kafka writes it: `LISTENER://host:port`, an IPv6 host in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a live broker.

    Attributes:
        broker_id: Its id.
        endpoints: Where it listens, in the order of its `advertised.listeners`.
        rack: Its `broker.rack`.
        features: Supported features: name to (min_version, max_version). Kafka 3.9 with ZooKeeper has none.
        epoch: The czxid of the registration, known once it is registered; it is not in the JSON.
        jmx_port: -1, because we offer none.
        timestamp: When it registered.
    """

    broker_id: BrokerId
    endpoints: tuple[RegisteredEndpoint, ...]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    epoch: BrokerEpoch = NO_BROKER_EPOCH
    jmx_port: int = -1
    timestamp: WallMs = NO_TIMESTAMP

    def endpoint(self, listener_name: str) -> RegisteredEndpoint | None:
        """Return the endpoint of a listener, ``None`` if the broker has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None


class BrokerIdsZnode:
    """`/brokers/ids`: a child for each live broker."""

    PATH: Final = "/brokers/ids"


class BrokerIdZnode:
    """`/brokers/ids/<id>`, ephemeral, JSON version 5; its czxid is the broker epoch."""

    @staticmethod
    def path(broker_id: BrokerId) -> str:
        """Return the path of a broker's registration."""
        return f"{BrokerIdsZnode.PATH}/{broker_id}"

    @staticmethod
    def encode(registration: BrokerRegistration) -> bytes:
        """Write a registration; `host` and `port` repeat the first PLAINTEXT endpoint, for old clients."""
        plain = next((e for e in registration.endpoints if e.security_protocol == "PLAINTEXT"), None)
        value: dict[str, Any] = {
            "features": {
                name: {"min_version": low, "max_version": high}
                for name, (low, high) in registration.features.items()
            },
            "listener_security_protocol_map": {
                endpoint.listener_name: endpoint.security_protocol for endpoint in registration.endpoints
            },
            "endpoints": [endpoint.text for endpoint in registration.endpoints],
        }
        if registration.rack is not None:
            value["rack"] = registration.rack
        value |= {
            "jmx_port": registration.jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(registration.timestamp),
        }
        return encode_json(value)

    @staticmethod
    def decode(broker_id: BrokerId, data: bytes, epoch: BrokerEpoch) -> BrokerRegistration:
        """Read a registration of version 1 to 5.

        Args:
            broker_id: From the path.
            data: The znode's bytes.
            epoch: The znode's czxid.

        Raises:
            MalformedZnodeError: it is not a broker registration.
        """
        what = f"the registration of broker {broker_id}"
        value = decode_json(data, what)
        with malformed_as(what, data):
            version = int(value["version"])
            if version < 1:
                raise MalformedZnodeError(f"{what} has version {version}", data)
            if version == 1:
                endpoints = [RegisteredEndpoint("PLAINTEXT", value["host"], int(value["port"]), "PLAINTEXT")]
            else:
                protocols = value.get("listener_security_protocol_map")
                endpoints = [_parse_endpoint(text, protocols) for text in value["endpoints"]]
            return BrokerRegistration(
                broker_id=broker_id,
                endpoints=tuple(endpoints),
                rack=value.get("rack"),
                features={
                    name: (int(versions["min_version"]), int(versions["max_version"]))
                    for name, versions in (value.get("features") or {}).items()
                },
                epoch=epoch,
                jmx_port=int(value.get("jmx_port", -1)),
                timestamp=WallMs(int(value.get("timestamp", -1))),
            )


def _parse_endpoint(text: str, protocols: Mapping[str, str] | None) -> RegisteredEndpoint:
    """Read `LISTENER://host:port`; without a map (below version 4) the name is the protocol."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no endpoint")
    name = listener_name(match[1])
    protocol = name if protocols is None else protocols[match[1]]
    return RegisteredEndpoint(name, match[2], int(match[3]), protocol)


class BrokerSequenceIdZnode:
    """`/brokers/seqid`: empty; the version that each write gives it is a unique number."""

    PATH: Final = "/brokers/seqid"
