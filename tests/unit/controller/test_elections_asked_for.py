"""Elections requested by API, by znode, and by the automatic rebalance."""

from collections.abc import Callable
from typing import Any

from cluster.controller.leader_elections import ElectionKind
from cluster.zookeeper.znodes import PreferredElectionZnode
from wire.errors import ApiError, Error
from wire.types import TopicPartition

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def outcomes(results: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
    return {tp: r.error if isinstance(r, ApiError) else r for tp, r in results.items()}


async def lose_and_return(cluster: Any, broker_id: int, isr: list[int], partitions: int = 1) -> None:
    """Kill and restart a broker, and put it back into the ISR: others now lead what it led."""
    await cluster.kill_broker(broker_id)
    await cluster.start_broker(broker_id)
    await cluster.settle()
    for partition in range(partitions):
        await cluster.set_isr("t", isr, partition)


def test_preferred(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1, 2], [2, 1]])
        await lose_and_return(cluster, 1, [2, 1], 2)
        unknown = TopicPartition("u", 0)
        results = await controller.elect_leaders([T0, T1, unknown], ElectionKind.PREFERRED)
        assert outcomes(results) == {
            T0: 1,
            T1: Error.ELECTION_NOT_NEEDED,
            unknown: Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await cluster.lead("t", 0))[:2] == (1, [2, 1])
        await cluster.settle()
        assert cluster.brokers[2].roles[T0].leader == 1

    tell(story)


def test_preferred_that_is_not_in_sync(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await lose_and_return(cluster, 1, [2])
        results = await cluster.controllers[0].elect_leaders(None, ElectionKind.PREFERRED)
        assert outcomes(results) == {T0: Error.PREFERRED_LEADER_NOT_AVAILABLE}

    tell(story)


def test_unclean(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1, 2], [0, 1]])
        await cluster.kill_broker(1)
        await cluster.kill_broker(2)
        results = await controller.elect_leaders([T0, T1], ElectionKind.UNCLEAN)
        assert outcomes(results) == {
            T0: Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            T1: Error.ELECTION_NOT_NEEDED,
        }
        await cluster.start_broker(1)
        await cluster.settle()
        assert outcomes(await controller.elect_leaders([T0], ElectionKind.UNCLEAN)) == {T0: 1}
        assert (await cluster.lead("t", 0))[:2] == (1, [1])

    tell(story)


def test_asked_for_through_the_znode(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2], [2, 1]])
        await lose_and_return(cluster, 1, [2, 1], 2)
        for _ in range(2):
            asked = PreferredElectionZnode.encode([T0, TopicPartition("u", 0)])
            await cluster.operator.create(PreferredElectionZnode.PATH, asked)
            await cluster.settle()
            assert await cluster.operator.exists(PreferredElectionZnode.PATH) is None
            assert (await cluster.lead("t", 0))[0] == 1

    tell(story)


def test_left_for_the_next_controller(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await lose_and_return(cluster, 1, [2, 1])
        await cluster.kill_broker(0)
        await cluster.operator.create(PreferredElectionZnode.PATH, PreferredElectionZnode.encode([T0]))
        await cluster.stand(2)
        assert (await cluster.lead("t"))[0] == 1
        assert await cluster.operator.exists(PreferredElectionZnode.PATH) is None

    tell(story)


def test_leaders_go_back_by_themselves(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.settings.auto_leader_rebalance_enable = True
        cluster.settings.leader_imbalance_check_interval_seconds = 2
        await cluster.create_topic("t", [[1, 2], [2, 1]])
        await lose_and_return(cluster, 1, [2, 1], 2)
        assert (await cluster.lead("t", 0))[0] == 2
        assert cluster.controllers[0].describe()["preferred_imbalance"] == 1
        await cluster.pass_time(7.5)
        assert (await cluster.lead("t", 0))[0] == 1
        assert cluster.controllers[0].describe()["preferred_imbalance"] == 0

    tell(story)


def test_a_small_imbalance_is_left(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.settings.auto_leader_rebalance_enable = True
        cluster.settings.leader_imbalance_per_broker_percentage = 50
        await cluster.create_topic("t", [[1, 2], [1, 0]])
        await cluster.set_isr("t", [2], 0)
        await lose_and_return(cluster, 1, [2, 1])
        await cluster.set_isr("t", [0], 1)
        await cluster.pass_time(6)
        assert (await cluster.lead("t", 0))[0] == 1

    tell(story)
