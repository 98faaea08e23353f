"""What the simulated network does to its users: cuts, breaks, lost machines, and the same again from a seed."""

import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cluster.network.broker_client import BrokerClient, ConnectionFailedError
from cluster.network.dialling import Link
from cluster.network.endpoints import Endpoint
from cluster.network.listener import Listeners
from cluster.network.response_slot import ResponseSlot
from simulation.network import SimulatedNetwork
from simulation.network_faults import NetworkFaults
from simulation.ports import POISON
from wire.frames import decode_request, encode_response
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

ASK = ApiVersionsRequest()
PORT = 9092


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Broker:
    """Listens on a machine and records what arrived and when."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self.begun: list[bytes] = []
        self.times: list[float] = []
        self.kept: list[memoryview] = []
        self.keeps = False
        self.listeners: Listeners = network.host(name).listeners([Endpoint("A", name, PORT)], self.dispatch)

    def dispatch(self, payload: memoryview, slot: ResponseSlot) -> None:
        self.begun.append(bytes(payload))
        self.times.append(trio.current_time())
        if self.keeps:
            self.kept.append(payload)
        if len(payload) > 8 and payload[0] == 0:
            header, _ = decode_request(payload)
            slot.complete(encode_response(ApiVersionsResponse(), header.api_version, header.correlation_id))
        else:
            slot.complete(frame(bytes(payload)))


def run(
    body: Callable[[SimulatedNetwork, Broker], Awaitable[None]],
    faults: NetworkFaults | None = None,
    seed: int = 1,
) -> SimulatedNetwork:
    network = SimulatedNetwork(seed, faults)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.run)
            broker = Broker(network, "b1")
            await nursery.start(broker.listeners.serve)
            with trio.fail_after(10_000):
                await body(network, broker)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return network


def client_of(network: SimulatedNetwork, **options: float) -> BrokerClient:
    return BrokerClient("b1", PORT, "test", dial=network.host("c").dial, **options)  # type: ignore[arg-type]


async def echoes(link: Link, payload: bytes) -> None:
    await link.send(frame(payload))
    received = bytearray()
    space = memoryview(bytearray(1000))
    while len(received) < 4 + len(payload):
        count = await link.receive_into(space)
        assert count > 0
        received += space[:count]
    assert received == frame(payload)


def test_delays_are_those_that_were_given() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        link = await network.host("c").dial("b1", PORT)
        for _ in range(20):
            start = trio.current_time()
            await echoes(link, b"x")
            assert 0.2 <= trio.current_time() - start <= 0.4

    run(body, NetworkFaults(delay_s=(0.1, 0.2), split_chance=0))


def test_a_cut_tells_nobody_and_what_was_sent_arrives_when_it_heals() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        client = client_of(network, request_timeout_s=5, connect_timeout_s=3)
        await client.request(ASK, 3)
        network.cut("c", "b1")
        with pytest.raises(ConnectionFailedError, match="no answer within 5 s"):
            await client.request(ASK, 3)
        with pytest.raises(ConnectionFailedError, match="no connection within 3 s"):
            await client.request(ASK, 3)
        assert len(broker.begun) == 1
        assert broker.listeners.quotas.total == 1, "the broker knows of nothing"
        network.heal("c", "b1")
        await trio.sleep(1)
        assert len(broker.begun) == 2, "the request arrives, though its sender has long given up"
        assert broker.listeners.quotas.total == 0
        await client.request(ASK, 3)

    run(body)


def test_a_one_way_cut_lets_requests_through_and_answers_not() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        client = client_of(network, request_timeout_s=5)
        await client.request(ASK, 3)
        network.cut("b1", "c", one_way=True)
        with pytest.raises(ConnectionFailedError):
            await client.request(ASK, 3)
        assert len(broker.begun) == 2, "it was carried out, and nobody knows"

    run(body)


def test_isolation_holds_up_everybody_but_the_machine_itself() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        network.isolate("b1")
        own = await network.host("b1").dial("b1", PORT)
        await echoes(own, b"mine")
        for name in ("c", "d"):
            with trio.move_on_after(1) as scope:
                await network.host(name).dial("b1", PORT)
            assert scope.cancelled_caught
        network.rejoin("b1")
        await echoes(await network.host("c").dial("b1", PORT), b"yours")

    run(body)


def test_a_dial_waits_out_a_cut() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        network.cut("c", "b1")
        network.scheduler.at(trio.current_time() + 7, network.heal_all)
        start = trio.current_time()
        await echoes(await network.host("c").dial("b1", PORT), b"x")
        assert 7 <= trio.current_time() - start < 8

    run(body)


def test_broken_connections_are_told_to_both_sides() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        link = await network.host("c").dial("b1", PORT)
        await echoes(link, b"x")
        assert network.break_connections("b1", "c") == 1
        with pytest.raises(ConnectionResetError):
            await link.receive_into(memoryview(bytearray(10)))
        await trio.sleep(1)
        assert broker.listeners.quotas.total == 0
        await echoes(await network.host("c").dial("b1", PORT), b"y")

    run(body)


def test_a_lost_machine_answers_nothing_and_comes_back_without_memory() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        link = await network.host("c").dial("b1", PORT)
        await echoes(link, b"x")
        network.lose("b1")
        await link.send(frame(b"lost"))
        with trio.move_on_after(100) as scope:
            await link.receive_into(memoryview(bytearray(10)))
        assert scope.cancelled_caught, "nobody is there to tell"
        assert broker.begun == [b"x"]
        network.restore("b1")
        with pytest.raises(ConnectionResetError):
            await link.receive_into(memoryview(bytearray(10)))
        with pytest.raises(ConnectionRefusedError):
            await network.host("c").dial("b1", PORT)

    run(body)


def test_what_a_killed_program_had_sent_still_arrives() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        link = await network.host("c").dial("b1", PORT)
        await link.send(frame(b"x"))
        await trio.sleep(0.001)
        assert broker.begun == [b"x"]
        for connection in broker.listeners.connections:
            connection.close()
        space = memoryview(bytearray(100))
        assert await link.receive_into(space) == 5
        assert await link.receive_into(space) == 0

    run(body, NetworkFaults(split_chance=0, delay_s=(0.0008, 0.0008)))


def test_chance_breaks_connections_and_a_client_that_retries_gets_through() -> None:
    failures = 0

    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        nonlocal failures
        client = client_of(network, request_timeout_s=5)
        answered = 0
        while answered < 200:
            try:
                await client.request(ASK, 3)
                answered += 1
            except ConnectionFailedError:
                failures += 1

    network = run(body, NetworkFaults(reset_chance=0.05, stall_chance=0.1, stall_s=(0.0, 6.0)))
    assert failures > 5
    assert any("breaks by chance" in text for _, text in network.notes)


def test_a_view_kept_too_long_reads_rubbish() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        broker.keeps = True
        await echoes(await network.host("c").dial("b1", PORT), b"valid during the call")
        assert bytes(broker.kept[0]) == POISON * 21

    run(body)


def test_unknown_machines_and_silent_ports() -> None:
    async def body(network: SimulatedNetwork, broker: Broker) -> None:
        with pytest.raises(OSError, match="no machine nobody"):
            await network.host("c").dial("nobody", PORT)
        with pytest.raises(ConnectionRefusedError):
            await network.host("c").dial("b1", PORT + 1)

    run(body)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_same_seed_gives_the_same_times(seed: int, clients: int) -> None:
    faults = NetworkFaults(stall_chance=0.2, reset_chance=0.02)

    def times() -> list[float]:
        found: list[float] = []

        async def one(network: SimulatedNetwork) -> None:
            client = client_of(network, request_timeout_s=1)
            for _ in range(10):
                try:
                    await client.request(ASK, 3)
                except ConnectionFailedError:
                    continue

        async def body(network: SimulatedNetwork, broker: Broker) -> None:
            for _ in range(clients):
                await one(network)
            found.extend(broker.times)

        run(body, faults, seed)
        return found

    assert times() == times()
