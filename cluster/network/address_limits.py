"""Connection limits of single hosts (``max.connections.per.ip.overrides``): parsing, and look-up of host names.

A peer is known by its address, so the limit of a host that is given by name applies to each address that the name has
when the setting is read.
"""

import socket
from collections.abc import Callable, Collection
from ipaddress import ip_address

LookUp = Callable[[str], Collection[str]]
"""Returns a host's addresses, written as peers' are; raises OSError if it has none. It can take long."""


class AddressLimitError(ValueError):
    """``max.connections.per.ip.overrides`` is not ``host:count,host:count``, or names an unknown host."""


def look_up(host: str) -> Collection[str]:
    """Return a host's addresses, from the machine's resolver.

    Raises:
        OSError: the resolver knows none.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return dict.fromkeys(str(address[0]) for *_, address in found)


def parse_address_limits(text: str) -> dict[str, int]:
    """Read ``max.connections.per.ip.overrides``, with hosts as they are written.

    Raises:
        AddressLimitError: an entry has no host, or no count of zero or more.
    """
    limits: dict[str, int] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        host, colon, count = entry.strip().rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not colon or not host or not count.strip().isdecimal():
            raise AddressLimitError(f"{entry.strip()!r} is not host:count")
        limits[host] = int(count)
    return limits


def resolve_address_limits(text: str, look_up: LookUp = look_up) -> dict[str, int]:
    """Read ``max.connections.per.ip.overrides``, with hosts as addresses.

    Raises:
        AddressLimitError: it is malformed, or a name has no address.
    """
    limits: dict[str, int] = {}
    for host, limit in parse_address_limits(text).items():
        for address in _addresses(host, look_up):
            limits[address] = limit
    return limits


def _addresses(host: str, look_up: LookUp) -> Collection[str]:
    try:
        return (ip_address(host).compressed,)
    except ValueError:
        pass  # a name
    try:
        return look_up(host)
    except OSError as error:
        raise AddressLimitError(f"the host {host!r} is not known: {error.strerror or error}") from None
