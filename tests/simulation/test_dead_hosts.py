"""A broker whose guardian dies with it: other brokers close its session, and never that of a live broker."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cluster.broker.broker import Broker
from simulation.cluster import SimulatedCluster
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

SESSION_TIMEOUT_S = 60
FOUND_S = 2.0
"""The longest time in which a dead host has to be found."""


def simulated(
    seed: int, test: Callable[[SimulatedCluster], Awaitable[None]], *, brokers: int = 3, limit_ms: int = 1000
) -> None:
    """Run a test on a cluster whose sessions are so long that no timeout explains a result."""

    async def main() -> None:
        settings = {
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_S * 1000),
            "ottla.peer.timeout.ms": str(limit_ms),
        }
        cluster = SimulatedCluster(seed, broker_count=brokers, settings=settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.start()
            if limit_ms:
                await watched_over(cluster)
            await test(cluster)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def watched_over(cluster: SimulatedCluster) -> None:
    """Wait until the session of each broker is watched over by two others."""

    def held() -> bool:
        running = cluster.running()
        counts = [
            sum(number in watched(broker) for broker in running.values() if broker.config.broker_id != number)
            for number in running
        ]
        return min(counts) >= min(2, len(running) - 1)

    await cluster.wait(held)


def watched(broker: Broker) -> list[int]:
    return list(broker.describe().get("watched_sessions", ()))


def session_of(cluster: SimulatedCluster, number: int) -> int:
    session = cluster.machines[number].session
    assert session is not None
    return session.session_id


def controllers(cluster: SimulatedCluster) -> list[int]:
    return [n for n, broker in cluster.running().items() if broker.describe()["controller"]["active"]]


async def found_dead(cluster: SimulatedCluster, session_ids: list[int]) -> float:
    """Wait until sessions are closed; return how long that took."""
    began = trio.current_time()
    await cluster.wait(lambda: not any(cluster.ensemble.is_alive(each) for each in session_ids))
    return trio.current_time() - began


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("victims", ["controller", "another", "both"])
@pytest.mark.parametrize("way", ["killed", "lost"])
def test_a_dead_host_is_found(seed: int, victims: str, way: str) -> None:
    async def test(cluster: SimulatedCluster) -> None:
        (controller,) = controllers(cluster)
        another = (controller + 1) % 3
        dying = {"controller": [controller], "another": [another], "both": [controller, another]}[victims]
        session_ids = [session_of(cluster, number) for number in dying]
        for number in dying:
            if way == "killed":
                await cluster.kill(number, guarded=False)
            else:
                await cluster.lose(number)
        if way == "lost" and victims == "both":
            # The survivor is alone, and no connection was closed: the fault can as well be its own network.
            await trio.sleep(10)
            assert all(cluster.ensemble.is_alive(each) for each in session_ids)
            return
        assert await found_dead(cluster, session_ids) < FOUND_S
        await cluster.wait(lambda: len(controllers(cluster)) == 1, timeout_s=2)

    simulated(seed, test)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", ["killed", "lost"])
def test_hosts_of_five_that_die_at_once_are_found(seed: int, way: str) -> None:
    """The controller and the next one are lost without a sign; or they are killed, and a third one with them."""

    async def test(cluster: SimulatedCluster) -> None:
        (controller,) = controllers(cluster)
        dying = [(controller + place) % 5 for place in range(2 if way == "lost" else 3)]
        session_ids = [session_of(cluster, number) for number in dying]
        if way == "killed":
            await cluster.kill(*dying, guarded=False, lingers_s=0.02)
        else:
            for number in dying:
                await cluster.lose(number)
        assert await found_dead(cluster, session_ids) < FOUND_S
        await cluster.wait(lambda: len(controllers(cluster)) == 1, timeout_s=2)

    simulated(seed, test, brokers=5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("lingers_s", [0.02, 0.3])
def test_a_port_that_outlives_its_connections_hides_no_death(seed: int, lingers_s: float) -> None:
    """Two of three die at once: the only sign that the third one has is that their connections ended."""

    async def test(cluster: SimulatedCluster) -> None:
        (controller,) = controllers(cluster)
        dying = [controller, (controller + 1) % 3]
        session_ids = [session_of(cluster, number) for number in dying]
        await cluster.kill(*dying, guarded=False, lingers_s=lingers_s)
        assert await found_dead(cluster, session_ids) < FOUND_S

    simulated(seed, test)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("later_s", [0.0, 0.1, 0.3])
def test_a_broker_that_was_slow_before_it_died_is_found(seed: int, later_s: float) -> None:
    """The third one's requests have just gone unanswered: it still needs a connection whose end it notices."""

    async def test(cluster: SimulatedCluster) -> None:
        (controller,) = controllers(cluster)
        survivor = (controller + 2) % 3
        dying = [controller, (controller + 1) % 3]
        session_ids = [session_of(cluster, number) for number in dying]
        for number in dying:
            cluster.network.cut(f"broker-{number}", f"broker-{survivor}", one_way=True)
        await trio.sleep(0.8)
        cluster.network.heal_all()
        await trio.sleep(later_s)
        await cluster.kill(*dying, guarded=False)
        assert await found_dead(cluster, session_ids) < FOUND_S

    simulated(seed, test)


@pytest.mark.parametrize("seed", range(2))
def test_clients_that_ask_meanwhile_are_not_sent_to_the_dead_leader(seed: int) -> None:
    """Given the same leader again, librdkafka asks only after a second or two; given none, it keeps asking."""

    async def test(cluster: SimulatedCluster) -> None:
        (controller,) = controllers(cluster)
        leader, witness = (controller + 1) % 3, (controller + 2) % 3
        client = cluster.client(controller)
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(broker_ids=[leader, witness, controller])],
        )
        await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        asked = cluster.client(witness)

        async def led_by() -> int:
            answer = await asked.request(
                MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 12
            )
            partitions = answer.topics[0].partitions
            return int(partitions[0].leader_id) if partitions else -1

        async def answers_until(wanted: set[int]) -> list[int]:
            answers = [await led_by()]
            while answers[-1] not in wanted:
                await trio.sleep(0.01)
                answers.append(await led_by())
            return answers

        await answers_until({leader})
        await cluster.kill(leader, guarded=False, lingers_s=0.005)
        answers = await answers_until({controller, witness})
        assert answers[0] == -1
        assert leader not in answers

    simulated(seed, test)


@pytest.mark.parametrize("seed", range(5))
def test_a_host_that_is_cut_off_is_found_once(seed: int) -> None:
    async def test(cluster: SimulatedCluster) -> None:
        session_id = session_of(cluster, 2)
        cluster.network.isolate("broker-2")
        assert await found_dead(cluster, [session_id]) < FOUND_S
        # It still reaches ZooKeeper, so it registers again, and is left alone for a while.
        await cluster.wait(lambda: session_of(cluster, 2) != session_id)
        second = session_of(cluster, 2)
        await trio.sleep(5)
        assert cluster.ensemble.is_alive(second)
        cluster.network.rejoin("broker-2")
        await watched_over(cluster)
        await trio.sleep(60)
        assert session_of(cluster, 2) == second

    simulated(seed, test)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "fault", ["one way", "one way back", "one peer", "resets", "slow", "halves", "flickers"]
)
def test_a_broker_that_lives_keeps_its_session(seed: int, fault: str) -> None:
    async def test(cluster: SimulatedCluster) -> None:
        before = [session_of(cluster, number) for number in cluster.running()]
        network = cluster.network
        match fault:
            case "one way":
                network.cut("broker-2", "broker-0", one_way=True)
            case "one way back":
                network.cut("broker-0", "broker-2", one_way=True)
            case "one peer":
                network.cut("broker-0", "broker-2")
            case "resets":
                network.faults.reset_chance = 0.05
            case "slow":
                network.faults.stall_chance = 0.5
                network.faults.stall_s = (0.05, 0.45)
            case "halves":
                for near in ("broker-0", "broker-1"):
                    for far in ("broker-2", "broker-3"):
                        network.cut(near, far)
            case "flickers":
                for turn in range(10):
                    network.isolate(f"broker-{turn % 3}")
                    await trio.sleep(0.4)
                    network.rejoin(f"broker-{turn % 3}")
                    await trio.sleep(0.2)
        await trio.sleep(20)
        network.heal_all()
        network.faults.reset_chance = network.faults.stall_chance = 0.0
        await trio.sleep(20)
        assert [session_of(cluster, number) for number in cluster.running()] == before
        assert all(cluster.ensemble.is_alive(each) for each in before)

    simulated(seed, test, brokers=4 if fault == "halves" else 3)


def test_a_broker_that_leaves_takes_its_key_back() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.stop(2)
        assert not any(2 in watched(broker) for broker in cluster.running().values())

    simulated(1, test)


def test_switched_off_a_dead_host_keeps_its_session_until_the_timeout() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        session_id = session_of(cluster, 2)
        await cluster.kill(2, guarded=False)
        await trio.sleep(SESSION_TIMEOUT_S / 2)
        assert cluster.ensemble.is_alive(session_id)
        assert not any(watched(broker) for broker in cluster.running().values())

    simulated(1, test, limit_ms=0)
