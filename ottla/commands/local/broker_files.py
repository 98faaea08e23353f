"""The ``server.properties`` that ``ottla up`` writes for a broker: an operator can read, edit and reuse it."""

import ipaddress
from collections.abc import Mapping
from typing import Final

from ottla.addresses import Address
from ottla.commands.local.cluster_directory import BrokerRecord
from ottla.zookeeper_server import JUTE_MAXBUFFER

_EVERYWHERE: Final = "0.0.0.0"
_EVERYWHERE_V6: Final = "::"
SESSION_TIMEOUT_MS: Final = 6_000
"""How long after a lost host its leaders move. A killed process does not wait for it: see the guardian."""


def broker_properties(
    broker: BrokerRecord, broker_count: int, zookeeper: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return a broker's settings, in the order of the file.

    Kafka's internal topics want three replicas whatever the cluster has, so one of fewer brokers asks for
    fewer.

    Args:
        broker: The broker.
        broker_count: How many brokers the cluster has.
        zookeeper: ZooKeeper's ``host:port``.
        overrides: Settings that replace these; ``{id}`` and ``{port}`` in a value are the broker's.
    """
    properties = {
        "broker.id": str(broker.id),
        **listener_settings("PLAINTEXT", broker),
        "log.dirs": str(broker.path / "logs"),
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "offsets.topic.replication.factor": str(min(3, broker_count)),
        "transaction.state.log.replication.factor": str(min(3, broker_count)),
        "transaction.state.log.min.isr": str(min(2, broker_count)),
        # As the file that Kafka ships for a first try has it: a group's first member does not wait for others.
        "group.initial.rebalance.delay.ms": "0",
        "ottla.management.socket": str(broker.management_socket),
        "ottla.zookeeper.write.bytes.max": str(JUTE_MAXBUFFER),
    }
    return properties | {
        name: value.replace("{id}", str(broker.id)).replace("{port}", str(broker.port))
        for name, value in overrides.items()
    }


def listener_settings(name: str, broker: BrokerRecord) -> dict[str, str]:
    """Return where a broker listens: on this machine alone, or for others too where it is known by another address."""
    where = Address(broker.host, broker.port)
    on = bind_host(broker.host)
    if on == broker.host:
        return {"listeners": f"{name}://{where}"}
    return {"listeners": f"{name}://{Address(on, broker.port)}", "advertised.listeners": f"{name}://{where}"}


def bind_host(host: str) -> str:
    """Return the address to listen on, for clients that reach this machine by ``host``."""
    if host == "localhost":
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _EVERYWHERE
    if address.is_loopback:
        return host
    return _EVERYWHERE if address.version == 4 else _EVERYWHERE_V6


def write_properties(broker: BrokerRecord, properties: Mapping[str, str]) -> None:
    """Write a broker's ``server.properties`` into its directory, which is made if missing."""
    broker.path.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}={_escaped(value)}\n" for name, value in properties.items()]
    broker.properties.touch(mode=0o600)  # passwords may stand in it
    broker.properties.write_text(
        "# Written by `ottla up`, which writes it anew each time.\n" + "".join(lines)
    )


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    escaped = "".join(c if " " <= c <= "~" else _unicode_escapes(c) for c in escaped)
    return "\\ " + escaped[1:] if escaped.startswith(" ") else escaped


def _unicode_escapes(character: str) -> str:
    # Java's escapes are UTF-16 units.
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
