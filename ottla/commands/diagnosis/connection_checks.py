"""Why a client cannot reach a cluster: every advertised address is resolved, tried, and compared.

A client connects twice: to the bootstrap address, which it was given, and then to the address that each broker
advertises, which it was not. Nearly every problem is a difference between the two, so each finding says which it is,
and what to change.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import trio

from ottla.addresses import Address
from ottla.client.admin import Broker
from ottla.client.broker_link import BrokerLink
from ottla.client.errors import AuthenticationError, BrokerUnreachable, UnsupportedByBroker
from ottla.client.waits import Waits
from ottla.commands.diagnosis.access_checks import look_at_groups, look_at_topics
from ottla.commands.diagnosis.connection_advice import (
    PORT_ADVICE,
    address_advice,
    authentication_advice,
    is_loopback,
)
from ottla.commands.diagnosis.findings import Diagnosis
from ottla.commands.inspection.lost_brokers import held_text, lost_advice, lost_brokers
from wire.errors import Error
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.schema import Request
from wire.types import BrokerId, TopicPartition

CONNECT_TIMEOUT_S: Final = 3.0
REQUEST_TIMEOUT_S: Final = 5.0
_BROKER: Final = 4
_NOT_KAFKA: Final = ("is no Kafka broker", "sent a malformed answer")
_HTTP_LENGTH: Final = str(int.from_bytes(b"HTTP", "big"))
_ANYWHERE: Final = ("0.0.0.0", "::")

Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[Address], AbstractAsyncContextManager[BrokerLink]]
Ask = Callable[[str, int], Awaitable[str | None]]


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
        connector: Connects to one address, and negotiates.
        resolve: Looks names up.
        ask_other: Finds out what else answers at a port.
        protocol: The security protocol that the client is set to.
        waits: Takes what is being waited for.
    """

    def __init__(
        self,
        connector: Connect,
        resolve: Resolve = resolve_host,
        ask_other: Ask = other_protocol,
        protocol: str = "PLAINTEXT",
        waits: Waits | None = None,
    ) -> None:
        self._waits = waits or Waits()
        self._protocol = protocol
        self._resolve = resolve
        self._connect = connector
        self._ask_other = ask_other

    async def examine(
        self, bootstrap: Sequence[Address], topics: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> Diagnosis:
        """Look at the bootstrap addresses, then at every broker that they name, then at some topics and groups."""
        diagnosis = Diagnosis()
        answered: list[tuple[str, MetadataResponse]] = []
        for host, port in bootstrap:
            # The first one is asked for all topics: who holds their replicas is looked at, too.
            request = MetadataRequest(topics=[] if answered else None)
            answer = await self._at(diagnosis, f"bootstrap {host}:{port}", host, port, request)
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
        _look_at_replicas(diagnosis, brokers, answered[0][1])
        for broker in diagnosis.brokers:
            await self._visit(diagnosis, broker)
        if not answered[0][1].topics:
            diagnosis.well("topics", "none is visible: there is none, or no access rule shows this user any")
        if topics or groups:
            await self._look_at_access(diagnosis, bootstrap[0], topics, groups)
        return diagnosis

    async def _look_at_access(
        self, diagnosis: Diagnosis, address: Address, topics: Sequence[str], groups: Sequence[str]
    ) -> None:
        """Ask what this client may do with topics and groups."""
        try:
            async with self._connect(address) as link:
                ask = partial(link.request, timeout_s=REQUEST_TIMEOUT_S)
                await look_at_topics(diagnosis, ask, topics)
                await look_at_groups(diagnosis, ask, groups)
        except (AuthenticationError, BrokerUnreachable, UnsupportedByBroker) as error:
            diagnosis.wrong("access", f"cannot be looked at: {error}", "see what is wrong above")

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
        with self._waits.on(f"{subject} to answer"):
            return await self._try(diagnosis, subject, host, port, request, advertised_by)

    async def _try(
        self,
        diagnosis: Diagnosis,
        subject: str,
        host: str,
        port: int,
        request: Request,
        advertised_by: Broker | None,
    ) -> Any:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            text = f"the name {host!r} does not resolve ({error.strerror or error})"
            diagnosis.wrong(subject, text, address_advice(host, advertised_by, resolved=False))
            return None
        connected = False
        try:
            async with self._connect(Address(host, port)) as link:
                connected = True
                answer = await link.request(request, timeout_s=REQUEST_TIMEOUT_S)
        except AuthenticationError as error:
            diagnosis.wrong(subject, str(error), authentication_advice(str(error)))
        except UnsupportedByBroker as error:
            diagnosis.wrong(subject, str(error), "the broker is older than Kafka 0.11, or no broker at all")
        except BrokerUnreachable as error:
            text = str(error)
            if any(each in text for each in _NOT_KAFKA):
                what = "an HTTP server" if _HTTP_LENGTH in text else "something"
                diagnosis.wrong(
                    subject, f"{what} answers there, which is no Kafka broker: {text}", PORT_ADVICE
                )
            else:
                await self._explain(
                    diagnosis, subject, host, port, addresses, text, advertised_by, connected=connected
                )
        else:
            where = "" if addresses == [host] else f" ({', '.join(addresses)})"
            diagnosis.well(subject, f"reachable{where}")
            return answer
        return None

    async def _explain(
        self,
        diagnosis: Diagnosis,
        subject: str,
        host: str,
        port: int,
        addresses: Sequence[str],
        text: str,
        advertised_by: Broker | None,
        *,
        connected: bool,
    ) -> None:
        if connected:
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
                diagnosis.wrong(subject, "a ZooKeeper answers there", PORT_ADVICE)
                return
        where = "" if list(addresses) == [host] else f" ({host} is {', '.join(addresses)})"
        diagnosis.wrong(subject, text + where, address_advice(host, advertised_by, addresses))


def _look_at_addresses(diagnosis: Diagnosis, brokers: Sequence[Broker], bootstrap: Sequence[Address]) -> None:
    seen: dict[tuple[str, int], Broker] = {}
    from_afar = not any(is_loopback(host) for host, _ in bootstrap)
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
        elif from_afar and is_loopback(broker.host):
            diagnosis.wrong(
                subject,
                "a client elsewhere is sent to itself",
                f"set advertised.listeners of broker {broker.broker_id} to the name that clients reach it by",
            )


def _look_at_replicas(diagnosis: Diagnosis, brokers: Collection[BrokerId], answer: MetadataResponse) -> None:
    """Name the brokers that hold replicas and do not live."""
    replicas = [
        (TopicPartition(topic.name or "", partition.partition_index), partition.replica_nodes)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    for broker_id, partitions in lost_brokers(brokers, replicas).items():
        diagnosis.wrong(f"broker {broker_id}", held_text(partitions), lost_advice(broker_id))


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
