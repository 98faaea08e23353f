"""What to change where a connection does not come about."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from ottla.client.admin import Broker

_AUTHENTICATION_ADVICE: Final = (
    ("has expired", "renew the certificate: the listener's ssl.keystore, or the client's"),
    ("not valid yet", "compare the clocks of this host and of the broker's"),
    (
        "host name",
        "connect by a name that the certificate is made out for, or issue it with this one among its alternative names",
    ),
    (
        "for this address",
        "connect by a name that the certificate is made out for, or issue it with this address among its "
        "alternative names",
    ),
    ("trusted", "put the certificate of the broker's authority into ssl.truststore.location"),
    (
        "no TLS was spoken",
        "the port is not a TLS listener's: set security.protocol=PLAINTEXT or SASL_PLAINTEXT",
    ),
    ("we showed none", "the listener demands a client certificate: set ssl.keystore.location"),
    ("does not enable the SASL mechanism", "set sasl.mechanism to one of those, or enable it on the broker"),
    ("is this a SASL listener", "the listener is not a SASL one: set security.protocol=PLAINTEXT or SSL"),
    ("common", "compare ssl.enabled.protocols and ssl.cipher.suites of client and broker"),
)
_PASSWORD_ADVICE: Final = "check user and password in sasl.jaas.config, and that the user exists"


def authentication_advice(text: str) -> str:
    """Say what to change where TLS or SASL failed."""
    return next((advice for found, advice in _AUTHENTICATION_ADVICE if found in text), _PASSWORD_ADVICE)


PORT_ADVICE: Final = "use the port of a broker's listener"


def address_advice(
    host: str, advertised_by: Broker | None, addresses: Iterable[str] = (), *, resolved: bool = True
) -> str:
    """Say what to change where an address does not work."""
    if advertised_by is None and not resolved:
        return "is the name right? It has to be known on this host: to its name servers, or in /etc/hosts"
    if advertised_by is None:
        return "is the broker running, and are its host and port right? Is a firewall between?"
    setting = f"advertised.listeners of broker {advertised_by.broker_id}"
    if any(is_loopback(address) for address in (host, *addresses)):
        return (
            f"the broker advertises {host}, which on each host is that host itself: set {setting} to "
            "a name that clients reach it by"
        )
    if any(is_private(address) for address in addresses):
        return (
            f"{host} is a private address, perhaps inside a container network: set {setting} to an address that is "
            "reachable from here, or add a second listener for clients outside"
        )
    return (
        f"clients try to connect there and fail: set {setting} to a name and port that are reachable from here, "
        "or add a second listener for clients out here"
    )


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
