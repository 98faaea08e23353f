"""Addresses as people write them: ``host:port,[::1]:port``."""

from typing import NamedTuple


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    """Read ``host:port,host:port``; IPv6 addresses stand in brackets.

    Raises:
        ValueError: an entry is written otherwise, or there is none.
    """
    addresses = []
    for entry in text.split(","):
        if not entry.strip():
            continue
        host, colon, port = entry.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{entry.strip()!r} is not HOST:PORT")
        addresses.append(Address(host, int(port)))
    if not addresses:
        raise ValueError("no HOST:PORT is given")
    return addresses
