"""One request at a time over a connection made on demand; any failure closes it."""

import errno
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from cluster.network.dialling import SocketLink
from wire.errors import RemoteProtocolError
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Broker:
    """The other end of every connection that a client makes."""

    def __init__(self) -> None:
        self.ends: list[trio.SocketStream] = []
        self.refuses: OSError | None = None

    async def dial(self, host: str, port: int) -> SocketLink:
        await trio.lowlevel.checkpoint()
        if self.refuses is not None:
            raise self.refuses
        near, far = socket.socketpair()
        near.setblocking(False)
        self.ends.append(trio.SocketStream(trio.socket.from_stdlib_socket(far)))
        return SocketLink(near)

    async def next_request(self) -> tuple[trio.SocketStream, int]:
        """Take a request off the newest connection; return its correlation id."""
        while not self.ends:
            await trio.testing.wait_all_tasks_blocked()
        end = self.ends[-1]
        data = bytearray()
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            received = await end.receive_some()
            assert received, "the client went away"
            data += received
        header, _ = decode_request(data, 4)
        return end, header.correlation_id


def answer_bytes(correlation_id: int, count: int = 1) -> bytes:
    keys = [ApiVersion(api_key=key % 70, min_version=0, max_version=9) for key in range(count)]
    answer = encode_response(ApiVersionsResponse(api_keys=keys), 3, correlation_id)
    assert isinstance(answer, bytearray)
    return bytes(answer)


def run(
    answering: Callable[[Broker], Awaitable[None]],
    asking: Callable[[BrokerClient], Awaitable[None]],
    **options: float,
) -> Broker:
    broker = Broker()

    async def main() -> None:
        client = BrokerClient("127.0.0.1", 9092, "test", dial=broker.dial, **options)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answering, broker)
            await asking(client)
            nursery.cancel_scope.cancel()
        client.close()
        client.close()
        for end in broker.ends:
            await end.aclose()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return broker


async def answers(broker: Broker) -> None:
    while True:
        end, correlation_id = await broker.next_request()
        await end.send_all(answer_bytes(correlation_id))


async def silent(broker: Broker) -> None:
    await broker.next_request()
    await trio.sleep_forever()


def test_requests_share_one_connection() -> None:
    async def asking(client: BrokerClient) -> None:
        assert not client.is_connected
        for _ in range(3):
            response = await client.request(ASK, 3)
            assert response.api_keys[0].max_version == 9
        assert client.is_connected

    assert len(run(answers, asking).ends) == 1


@pytest.mark.parametrize("count", [1, 20_000, 160_000])
@pytest.mark.parametrize("step", [7, 100_000_000])
def test_an_answer_may_be_large_and_come_in_pieces(count: int, step: int) -> None:
    if count > 1 and step < 100:
        step = 50_000

    async def answering(broker: Broker) -> None:
        while True:
            end, correlation_id = await broker.next_request()
            data = answer_bytes(correlation_id, count)
            for position in range(0, len(data), step):
                await end.send_all(data[position : position + step])

    async def asking(client: BrokerClient) -> None:
        for _ in range(2 if count < 100_000 else 1):
            assert len((await client.request(ASK, 3)).api_keys) == count

    run(answering, asking)


def test_a_broker_that_cannot_be_reached_is_a_failure_with_a_name() -> None:
    async def answering(broker: Broker) -> None:
        broker.refuses = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    async def asking(client: BrokerClient) -> None:
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:9092: Connection refused"):
            await client.request(ASK, 3)
        assert not client.is_connected

    run(answering, asking)


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    async def asking(client: BrokerClient) -> None:
        start = trio.current_time()
        with pytest.raises(ConnectionFailedError, match="no answer within 5 s") as caught:
            await client.request(ASK, 3)
        assert caught.value.errno == errno.ETIMEDOUT
        assert trio.current_time() - start == pytest.approx(5)
        assert not client.is_connected

    run(silent, asking, request_timeout_s=5)


def test_after_a_failure_it_connects_again() -> None:
    async def answering(broker: Broker) -> None:
        end, _ = await broker.next_request()
        await end.aclose()
        broker.ends.clear()
        await answers(broker)

    async def asking(client: BrokerClient) -> None:
        with pytest.raises(ConnectionFailedError):
            await client.request(ASK, 3)
        assert (await client.request(ASK, 3)).error_code == 0

    run(answering, asking)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -5),
        struct.pack(">i", 2_000_000),
        struct.pack(">i", 4) + struct.pack(">i", 999),
        struct.pack(">i", 0),
        answer_bytes(1) + b"more",
        answer_bytes(2),
        answer_bytes(1)[:4] + b"\0\0\0\1" + b"\xff" * (len(answer_bytes(1)) - 8),
    ],
)
def test_what_is_no_answer_ends_the_connection(data: bytes) -> None:
    async def lying(broker: Broker) -> None:
        end, _ = await broker.next_request()
        await end.send_all(data)
        await trio.sleep_forever()

    async def asking(client: BrokerClient) -> None:
        with pytest.raises(RemoteProtocolError):
            await client.request(ASK, 3)
        assert not client.is_connected

    run(lying, asking, max_frame=1_000_000)


def test_a_second_request_at_the_same_time_is_a_mistake() -> None:
    async def asking(client: BrokerClient) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.request, ASK, 3)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await client.request(ASK, 3)
            nursery.cancel_scope.cancel()

    run(silent, asking)


def test_closing_fails_the_request_under_way() -> None:
    async def asking(client: BrokerClient) -> None:
        async def ask() -> None:
            with pytest.raises(ConnectionFailedError):
                await client.request(ASK, 3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            client.close()

    run(silent, asking)


def test_cancelled_at_any_await_it_can_be_used_again() -> None:
    async def answering(broker: Broker) -> None:
        served = 0
        while True:
            while len(broker.ends) == served:
                await trio.lowlevel.checkpoint()
            served = len(broker.ends)
            with trio.CancelScope():
                try:
                    end, correlation_id = await broker.next_request()
                    await end.send_all(answer_bytes(correlation_id))
                except (AssertionError, trio.BrokenResourceError):
                    pass

    async def asking(client: BrokerClient) -> None:
        for passes in range(12):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.request, ASK, 3)
                    for _ in range(passes):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            client.close()
            assert not client.is_connected

    run(answering, asking)


def test_the_end_of_an_idle_connection_is_noticed() -> None:
    answered = trio.Event()

    async def answering(broker: Broker) -> None:
        end, correlation_id = await broker.next_request()
        await end.send_all(answer_bytes(correlation_id))
        await answered.wait()
        await end.aclose()

    async def asking(client: BrokerClient) -> None:
        await client.request(ASK, 3)
        with trio.move_on_after(0.01) as in_vain:
            await client.wait_ended()
        assert in_vain.cancelled_caught
        assert client.is_connected
        answered.set()
        with trio.fail_after(10):
            await client.wait_ended()
        assert not client.is_connected

    run(answering, asking)
