"""Connections against a broker played by the test, over real sockets."""

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from ottla.client import AuthenticationError, BootstrapError, ClientError, ClosedClient, connect, plain
from ottla.client.broker_link import BrokerLink
from ottla.client.errors import BrokerUnreachable, RequestTimedOut, UnsupportedByBroker
from ottla.client.kafka import Kafka
from wire.apis import API_TABLE, ApiKey
from wire.errors import Error
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from wire.messages.sasl_authenticate import SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeResponse
from wire.schema import Request, Response
from wire.types import BrokerId

Answer = Callable[[Request], Response | None]
VERSIONS = [
    ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    for api in API_TABLE.values()
]


class PlayedBroker:
    """Answers as the test defines; for other requests, as a single healthy broker would."""

    def __init__(self, answers: dict[int, Answer]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            listen = partial(trio.serve_tcp, self._converse, 0, host="127.0.0.1")
            (listener,) = await nursery.start(listen)
            self.port = listener.socket.getsockname()[1]
            task_status.started(self)

    async def _converse(self, stream: trio.SocketStream) -> None:
        data = bytearray()
        while True:
            chunk = await stream.receive_some()
            if not chunk:
                return
            data += chunk
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                size = int.from_bytes(data[:4], "big")
                header, request = decode_request(bytes(data[4 : 4 + size]))
                del data[: 4 + size]
                self.asked.append(API_TABLE[header.api_key].name)
                answer = self._answer(header.api_key, request)
                if answer is not None:
                    version = header.api_version
                    if isinstance(answer, ApiVersionsResponse) and answer.error_code:
                        version = 0
                    frame = encode_response(answer, version, header.correlation_id)
                    assert isinstance(frame, bytearray)
                    await stream.send_all(frame)

    def _answer(self, api_key: int, request: Request) -> Response | None:
        given = self.answers.get(api_key)
        if given is not None:
            return given(request)
        if api_key == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(api_keys=VERSIONS)
        assert api_key == ApiKey.METADATA
        broker = MetadataResponseBroker(node_id=BrokerId(1), host="127.0.0.1", port=self.port)
        return MetadataResponse(cluster_id="played", brokers=[broker])


async def played(
    answers: dict[int, Answer], body: Callable[[Kafka, PlayedBroker], Awaitable[None]], **settings: Any
) -> None:
    """Run ``body`` with a client of a broker that gives these answers."""
    async with trio.open_nursery() as nursery:
        broker = PlayedBroker(answers)
        await nursery.start(broker.serve)
        async with connect(f"127.0.0.1:{broker.port}", **settings) as kafka:
            await body(kafka, broker)
        nursery.cancel_scope.cancel()


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_each_address_that_leads_nowhere_is_named() -> None:
    first, second = closed_port(), closed_port()

    async def main() -> None:
        async with connect(f"127.0.0.1:{first},127.0.0.1:{second},no-such-host.invalid:9092"):
            raise AssertionError("it connected")

    with pytest.raises(BootstrapError) as caught:
        trio.run(main)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert f"127.0.0.1:{first}: Connection refused" in lines[1]
    assert f"127.0.0.1:{second}: Connection refused" in lines[2]
    assert "'no-such-host.invalid' does not resolve" in lines[3]


def test_what_the_body_raises_leaves_the_block_as_itself() -> None:
    async def main() -> None:
        async def body(kafka: Kafka, broker: PlayedBroker) -> None:
            raise KeyError("mine")

        await played({}, body)

    with pytest.RaisesGroup(pytest.RaisesExc(KeyError, match="mine")):  # the test's own nursery wraps it once
        trio.run(main)


def test_a_client_outside_of_its_block_says_so() -> None:
    kafka = connect("127.0.0.1:1")
    with pytest.raises(ClosedClient):
        kafka.producer()


def test_a_broker_that_knows_an_older_hello_is_asked_again() -> None:
    asked: list[Request] = []

    def refuse_once(request: Request) -> Response:
        asked.append(request)
        if len(asked) % 2:
            return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION)
        return ApiVersionsResponse(api_keys=VERSIONS)

    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        assert kafka.cluster_id == "played"
        assert broker.asked[:3] == ["ApiVersions", "ApiVersions", "Metadata"]

    trio.run(played, {ApiKey.API_VERSIONS: refuse_once}, body)


async def link_of(kafka: Kafka) -> BrokerLink:
    return await kafka.context.links.get(BrokerId(1))


def test_an_answer_that_does_not_come_fails_all_in_flight_in_order() -> None:
    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        link = await link_of(kafka)
        outcomes: list[tuple[int, Any]] = []
        for number in range(3):
            link.start(
                ListGroupsRequest(),
                lambda result, number=number: outcomes.append((number, result)),
                timeout_s=0.01 + number,
            )
        with pytest.raises(BrokerUnreachable):
            await link.request(ListGroupsRequest())
        assert [number for number, _ in outcomes] == [0, 1, 2]
        assert all(isinstance(result, RequestTimedOut) for _, result in outcomes)
        assert not link.is_open
        with pytest.raises(BrokerUnreachable, match="is closed"):
            link.start(ListGroupsRequest(), lambda _: None)
        assert (await link_of(kafka)).is_open

    trio.run(played, {ApiKey.LIST_GROUPS: lambda _: None}, body)


def test_a_cancelled_request_leaves_the_connection_usable() -> None:
    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        link = await link_of(kafka)
        with trio.CancelScope() as scope:
            scope.cancel()
            await link.request(ListGroupsRequest())
        for _ in range(100):
            with trio.move_on_after(0):
                await link.request(ListGroupsRequest())
        answer = await link.request(ListGroupsRequest())
        assert isinstance(answer, ListGroupsResponse)
        assert link.is_open

    trio.run(played, {ApiKey.LIST_GROUPS: lambda _: ListGroupsResponse()}, body)


def test_a_throttled_connection_sends_nothing_until_then() -> None:
    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        link = await link_of(kafka)
        await link.request(ListGroupsRequest())
        until = link.throttled_until
        assert until > trio.current_time()
        await link.request(ListGroupsRequest())
        assert trio.current_time() >= until

    trio.run(played, {ApiKey.LIST_GROUPS: lambda _: ListGroupsResponse(throttle_time_ms=30)}, body)


def test_versions_without_overlap_are_named() -> None:
    hello = ApiVersionsResponse(
        api_keys=[
            v if v.api_key != ApiKey.LIST_GROUPS else ApiVersion(api_key=16, min_version=90, max_version=99)
            for v in VERSIONS
        ]
    )

    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        link = await link_of(kafka)
        with pytest.raises(
            UnsupportedByBroker, match=r"ListGroups is served by .* in versions 90 to 99, known here in 0 to"
        ):
            await link.request(ListGroupsRequest())

    trio.run(played, {ApiKey.API_VERSIONS: lambda _: hello}, body)


@pytest.mark.parametrize("is_right", [True, False])
def test_plain_credentials(is_right: bool) -> None:
    def authenticate(request: Any) -> Response:
        assert request.auth_bytes == b"\0ann\0secret"
        if is_right:
            return SaslAuthenticateResponse()
        return SaslAuthenticateResponse(
            error_code=Error.SASL_AUTHENTICATION_FAILED, error_message="wrong password"
        )

    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        assert is_right
        assert broker.asked[:3] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]

    answers: dict[int, Answer] = {
        ApiKey.SASL_HANDSHAKE: lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]),
        ApiKey.SASL_AUTHENTICATE: authenticate,
    }

    async def main() -> None:
        await played(answers, body, sasl=plain("ann", "secret"))

    if is_right:
        trio.run(main)
    else:
        with pytest.RaisesGroup(
            pytest.RaisesExc(AuthenticationError, match="refuses the PLAIN credentials: wrong password")
        ):
            trio.run(main)


def test_another_cluster_behind_the_addresses_ends_the_client() -> None:
    ids = iter(["first", "second"])
    port = 0

    def metadata(_: Request) -> Response:
        broker = MetadataResponseBroker(node_id=BrokerId(1), host="127.0.0.1", port=port)
        return MetadataResponse(cluster_id=next(ids), brokers=[broker])

    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        nonlocal port
        port = broker.port
        kafka.context.refresh.ask()
        await trio.sleep_forever()

    with pytest.RaisesGroup(
        pytest.RaisesExc(ClientError, match="the cluster second now; the client began with first")
    ):
        trio.run(played, {ApiKey.METADATA: metadata}, body)


def test_everyone_who_waits_for_a_connection_is_called_whoever_dialled_it() -> None:
    called: list[str] = []

    async def body(kafka: Kafka, broker: PlayedBroker) -> None:
        links = kafka.context.links
        all_called = trio.Event()

        def last() -> None:
            called.append("last")
            all_called.set()

        # As a reader's lookup dials the leader that a producer is about to send to.
        links.dial_soon(BrokerId(1))
        links.dial_soon(BrokerId(1), then=partial(called.append, "first"))
        links.dial_soon(BrokerId(1), then=last)
        links.dial_soon(BrokerId(1), then=last)
        with trio.fail_after(5):
            await all_called.wait()
        assert called == ["first", "last"]
        assert links.ready(BrokerId(1)) is not None

    trio.run(played, {}, body)
