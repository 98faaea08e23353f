"""`ottla.testing.simulated`: what programs return and raise, and what they can do to their cluster."""

import pytest
import trio

from ottla.testing import ClusterError, simulated
from ottla.testing.virtual import VirtualCluster


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("CRITICAL"):
        yield


class BrokenError(Exception):
    pass


def test_what_a_program_returns_is_returned_and_an_hour_takes_no_time() -> None:
    async def program(cluster: VirtualCluster) -> float:
        begun = trio.current_time()
        await trio.sleep(600)
        return trio.current_time() - begun

    assert simulated(program, brokers=1) == pytest.approx(600)


def test_what_a_program_raises_is_raised_as_it_is() -> None:
    async def program(cluster: VirtualCluster) -> None:
        raise BrokenError

    with pytest.raises(BrokenError):
        simulated(program, brokers=1)


def test_a_program_that_does_not_end_is_ended() -> None:
    async def program(cluster: VirtualCluster) -> None:
        await trio.sleep_forever()

    with pytest.raises(ClusterError, match="has not ended within 60 simulated seconds"):
        simulated(program, brokers=1, timeout=60)


def test_what_the_cluster_sets_itself_is_refused() -> None:
    async def program(cluster: VirtualCluster) -> None:
        raise BrokenError

    with pytest.raises(ClusterError, match=r"log\.dirs is the simulated cluster's own to set"):
        simulated(program, settings={"log.dirs": "/mine"})
    with pytest.raises(ClusterError, match="cannot have 0 brokers"):
        simulated(program, brokers=0)


def test_faults_of_every_kind_are_survived() -> None:
    async def program(cluster: VirtualCluster) -> list[int]:
        await cluster.create_topic("orders")
        places = []
        async with cluster.connect(machine="laptop") as kafka, kafka.producer() as out:

            async def survives() -> None:
                places.append((await out.send("orders", b"order")).offset)

            await cluster.lose_power(0)
            await survives()
            await cluster.start()
            cluster.full_disk(cluster.view().leader("orders", 0))
            await survives()
            await cluster.wait(lambda seen: len(seen.descriptions) == 2)
            cluster.heal()
            await cluster.start()
            await cluster.wait_whole()
            epoch = cluster.view().descriptions[1]["broker_epoch"]
            cluster.expire_session(1)
            await survives()
            await cluster.wait(lambda seen: seen.descriptions[1].get("broker_epoch") != epoch)
            cluster.pause(cluster.view().leader("orders", 0))
            await survives()
            cluster.cut_client("laptop")
            with trio.move_on_after(5) as cut:
                await survives()
            assert cut.cancelled_caught
            cluster.heal()
            await cluster.restart(2)
            await survives()
            await cluster.wait_whole()
        return places

    places = simulated(program, seed=3)
    assert places[:4] == [0, 1, 2, 3]
    assert places[4] in (4, 5)  # what the cut held up arrives, or was never sent


def test_topics_that_cannot_be_are_refused() -> None:
    async def program(cluster: VirtualCluster) -> None:
        with pytest.raises(ClusterError, match="larger than available brokers"):
            await cluster.create_topic("orders", replicas=2)
        with pytest.raises(ClusterError, match="there is no broker 4 among"):
            cluster.pause(4)

    simulated(program, brokers=1)
