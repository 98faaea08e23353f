"""Why a client cannot reach a cluster: every advertised address is resolved, tried, and compared.

A client connects twice: to the bootstrap address, which it was given, and then to the address that each broker
advertises, which it was not. Nearly every problem is a difference between the two, so each finding says which it is,
and what to change.
"""

import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ottla.admin import Broker
from ottla.connection import AuthenticationFailedError, ConnectError, Connection, connect
from wire.errors import Error, RemoteProtocolError
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.schema import Request

CONNECT_TIMEOUT_S: Final = 3.0
REQUEST_TIMEOUT_S: Final = 5.0
_CLIENT_ID: Final = "ottla-doctor"
_BROKER: Final = 4
_HTTP_LENGTH: Final = str(int.from_bytes(b"HTTP", "big"))
_ANYWHERE: Final = ("0.0.0.0", "::")

Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[str, int, str, float], Awaitable[Connection]]
Ask = Callable[[str, int], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: What was looked at.
        is_well: Whether it is as it should be.
        text: What was seen.
        advice: What to change; empty where nothing is wrong.
    """

    subject: str
    is_well: bool
    text: str
    advice: str = ""


@dataclass(slots=True)
class Diagnosis:
    """What was found, in the order in which it was looked at."""

    findings: list[Finding] = field(default_factory=list)
    brokers: list[Broker] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.is_well for finding in self.findings)

    def well(self, subject: str, text: str) -> None:
        """Note that something is as it should be."""
        self.findings.append(Finding(subject, True, text))

    def wrong(self, subject: str, text: str, advice: str) -> None:
        """Note that something is not."""
        self.findings.append(Finding(subject, False, text, advice))


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a name.

    Raises:
        OSError: it has none.
    """
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def other_protocol(host: str, port: int) -> str | None:
    """Find out what answers at a port that is no plaintext Kafka; None where that stays unknown."""
    with trio.move_on_after(CONNECT_TIMEOUT_S):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with await trio.open_ssl_over_tcp_stream(
                host, port, ssl_context=context, https_compatible=True
            ) as stream:
                await stream.do_handshake()
                return "TLS"
        except (OSError, ssl.SSLError, trio.BrokenResourceError):
            pass
        try:
            async with await trio.open_tcp_stream(host, port) as plain:
                await plain.send_all(b"srvr")
                if (await plain.receive_some(64)).startswith(b"Zookeeper"):
                    return "ZooKeeper"
        except (OSError, trio.BrokenResourceError):
            pass
    return None


class Doctor:
    """Looks at a cluster from where it runs.

    Args:
        resolve: Looks names up.
        connector: Connects, and speaks the first words of Kafka.
        ask_other: Finds out what else answers at a port.
        protocol: The security protocol that the client is set to.
    """

    def __init__(
        self,
        resolve: Resolve = resolve_host,
        connector: Connect = connect,
        ask_other: Ask = other_protocol,
        protocol: str = "PLAINTEXT",
    ) -> None:
        self._protocol = protocol
        self._resolve = resolve
        self._connect = connector
        self._ask_other = ask_other

    async def examine(self, bootstrap: Sequence[tuple[str, int]]) -> Diagnosis:
        """Look at the bootstrap addresses, then at every broker that they tell of."""
        diagnosis = Diagnosis()
        answered: list[tuple[str, MetadataResponse]] = []
        for host, port in bootstrap:
            answer = await self._at(
                diagnosis, f"bootstrap {host}:{port}", host, port, MetadataRequest(topics=[])
            )
            if answer is not None:
                answered.append((f"{host}:{port}", answer))
        if not answered:
            return diagnosis
        _compare(diagnosis, answered)
        brokers = {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for _, answer in answered
            for each in answer.brokers
        }
        diagnosis.brokers = [brokers[broker_id] for broker_id in sorted(brokers)]
        _look_at_addresses(diagnosis, diagnosis.brokers, bootstrap)
        for broker in diagnosis.brokers:
            await self._visit(diagnosis, broker)
        return diagnosis

    async def _visit(self, diagnosis: Diagnosis, broker: Broker) -> None:
        """Look whether a broker is where it says, and whether what is there is this broker."""
        subject = f"broker {broker.broker_id} at {broker.host}:{broker.port}"
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=_BROKER,
                    resource_name=str(broker.broker_id),
                    configuration_keys=["broker.id", "listeners", "advertised.listeners"],
                )
            ]
        )
        answer = await self._at(diagnosis, subject, broker.host, broker.port, request, broker)
        if answer is None:
            return
        (result,) = answer.results
        settings = {config.name: config.value for config in result.configs}
        if result.error_code == Error.INVALID_REQUEST or settings.get("broker.id") not in (
            None,
            str(broker.broker_id),
        ):
            diagnosis.wrong(
                subject,
                "another broker answers there",
                "two brokers advertise one address, or a port is forwarded to the wrong broker: give each its own "
                "advertised.listeners, and have its port lead to it",
            )

    async def _at(
        self,
        diagnosis: Diagnosis,
        subject: str,
        host: str,
        port: int,
        request: Request,
        advertised_by: Broker | None = None,
    ) -> Any:
        """Resolve, connect and ask; note how far it went, and return the answer or None."""
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            text = f"the name {host!r} does not resolve ({error.strerror or error})"
            diagnosis.wrong(subject, text, _advice(host, advertised_by, resolved=False))
            return None
        connection = None
        try:
            connection = await self._connect(host, port, _CLIENT_ID, CONNECT_TIMEOUT_S)
            answer = await connection.request(request, REQUEST_TIMEOUT_S)
        except RemoteProtocolError as error:
            what = "an HTTP server" if _HTTP_LENGTH in str(error) else "something"
            diagnosis.wrong(subject, f"{what} answers there, which is no Kafka broker: {error}", _PORT_ADVICE)
        except AuthenticationFailedError as error:
            diagnosis.wrong(subject, str(error), _authentication_advice(str(error)))
        except ConnectError as error:
            await self._explain(
                diagnosis, subject, host, port, addresses, str(error), connection, advertised_by
            )
        else:
            where = "" if addresses == [host] else f" ({', '.join(addresses)})"
            diagnosis.well(subject, f"reachable{where}")
            return answer
        finally:
            if connection is not None:
                await connection.close()
        return None

    async def _explain(
        self,
        diagnosis: Diagnosis,
        subject: str,
        host: str,
        port: int,
        addresses: Sequence[str],
        text: str,
        connection: Connection | None,
        advertised_by: Broker | None,
    ) -> None:
        if connection is not None:
            diagnosis.wrong(
                subject,
                f"it answers the first request and then closes: {text}",
                "the listener wants clients to authenticate (SASL_PLAINTEXT): set security.protocol and "
                "sasl.mechanism, or use a PLAINTEXT listener's port",
            )
            return
        if self._protocol.startswith("SASL") and "closed the connection" in text:
            diagnosis.wrong(
                subject,
                f"the connection was closed during authentication: {text}",
                f"is this a {self._protocol} listener? Compare security.protocol and sasl.mechanism with the broker's "
                "listener.security.protocol.map and sasl.enabled.mechanisms",
            )
            return
        if "closed the connection" in text or "did not answer" in text:
            other = await self._ask_other(host, port)
            if other == "TLS":
                diagnosis.wrong(
                    subject,
                    "the port speaks TLS",
                    "set security.protocol=SSL or SASL_SSL, or use a PLAINTEXT port",
                )
                return
            if other == "ZooKeeper":
                diagnosis.wrong(subject, "a ZooKeeper answers there", _PORT_ADVICE)
                return
        where = "" if list(addresses) == [host] else f" ({host} is {', '.join(addresses)})"
        diagnosis.wrong(subject, text + where, _advice(host, advertised_by, addresses))


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


def _authentication_advice(text: str) -> str:
    """Say what to change where TLS or SASL failed."""
    return next((advice for found, advice in _AUTHENTICATION_ADVICE if found in text), _PASSWORD_ADVICE)


_PORT_ADVICE: Final = "use the port of a broker's listener"


def _advice(
    host: str, advertised_by: Broker | None, addresses: Iterable[str] = (), *, resolved: bool = True
) -> str:
    """Say what to change where an address does not work."""
    if advertised_by is None and not resolved:
        return "is the name right? It has to be known on this host: to its name servers, or in /etc/hosts"
    if advertised_by is None:
        return "is the broker running, and are its host and port right? Is a firewall between?"
    setting = f"advertised.listeners of broker {advertised_by.broker_id}"
    if any(_is_loopback(address) for address in (host, *addresses)):
        return (
            f"the broker advertises {host}, which on each host is that host itself: set {setting} to "
            "a name that clients reach it by"
        )
    if any(_is_private(address) for address in addresses):
        return (
            f"{host} is a private address, perhaps inside a container network: set {setting} to an address that is "
            "reachable from here, or add a second listener for clients outside"
        )
    return (
        f"clients try to connect there and fail: set {setting} to a name and port that are reachable from here, "
        "or add a second listener for clients out here"
    )


def _look_at_addresses(
    diagnosis: Diagnosis, brokers: Sequence[Broker], bootstrap: Sequence[tuple[str, int]]
) -> None:
    seen: dict[tuple[str, int], Broker] = {}
    from_afar = not any(_is_loopback(host) for host, _ in bootstrap)
    for broker in brokers:
        subject = f"broker {broker.broker_id} advertises {broker.host}:{broker.port}"
        other = seen.setdefault((broker.host, broker.port), broker)
        if other is not broker:
            diagnosis.wrong(
                subject,
                f"so does broker {other.broker_id}: clients reach one of them for both",
                "give each broker its own host or port in advertised.listeners",
            )
        if broker.host in _ANYWHERE:
            diagnosis.wrong(
                subject,
                "that is no address to connect to",
                f"set advertised.listeners of broker {broker.broker_id} to the name that clients reach it by",
            )
        elif from_afar and _is_loopback(broker.host):
            diagnosis.wrong(
                subject,
                "a client elsewhere is sent to itself",
                f"set advertised.listeners of broker {broker.broker_id} to the name that clients reach it by",
            )


def _compare(diagnosis: Diagnosis, answered: Sequence[tuple[str, MetadataResponse]]) -> None:
    """Compare what the bootstrap servers say of the cluster."""
    clusters = {answer.cluster_id: where for where, answer in answered}
    if len(clusters) > 1:
        listed = ", ".join(f"{where} is of {cluster_id}" for cluster_id, where in clusters.items())
        diagnosis.wrong(
            "cluster", f"these are different clusters: {listed}", "name the brokers of one cluster only"
        )
        return
    views = {tuple(sorted(each.node_id for each in answer.brokers)): where for where, answer in answered}
    if len(views) > 1:
        listed = "; ".join(f"{where} knows {', '.join(map(str, ids))}" for ids, where in views.items())
        diagnosis.wrong(
            "cluster",
            f"the brokers disagree on who is alive: {listed}",
            "a broker has lost the controller or ZooKeeper: see its log, and `ottla cluster describe`",
        )
    _, answer = answered[0]
    if answer.controller_id not in {each.node_id for each in answer.brokers}:
        diagnosis.wrong(
            "cluster",
            "there is no controller: topics cannot be created, and leaders not elected",
            "is ZooKeeper reachable from the brokers? See their logs",
        )
    else:
        diagnosis.well(
            "cluster",
            f"{answer.cluster_id}: {len(answer.brokers)} brokers, controller {answer.controller_id}",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
