"""Partitions move, are moved elsewhere on the way, and back."""

from collections.abc import Callable
from typing import Any

from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.znodes import ReassignPartitionsZnode
from wire.errors import ApiError, Error
from wire.types import BrokerId, TopicPartition

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


async def assignment(cluster: Any, partition: int = 0) -> PartitionAssignment:
    found = await cluster.store.read_topic("t")
    result: PartitionAssignment = found[0].partitions[partition]
    return result


def errors(outcomes: dict[TopicPartition, ApiError | None]) -> list[Error | None]:
    return [None if error is None else error.error for error in outcomes.values()]


def test_a_move(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1, 2, 3]])
        assert errors(await controller.alter_partition_reassignments({T0: [3, 4, 5]})) == [None]
        await cluster.settle()
        moving = PartitionAssignment((3, 4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
        assert await assignment(cluster) == moving
        assert await cluster.lead("t") == (1, [1, 2, 3], 1)
        assert cluster.brokers[4].roles[T0].is_new
        assert not cluster.brokers[1].roles[T0].is_new
        assert tuple(cluster.brokers[1].roles[T0].adding_replicas) == (4, 5)
        assert await controller.list_partition_reassignments(None) == {T0: moving}
        assert await controller.list_partition_reassignments([T1]) == {}
        await cluster.set_isr("t", [1, 2, 3, 4])
        assert await assignment(cluster) == moving
        await cluster.set_isr("t", [1, 2, 3, 4, 5])
        assert await assignment(cluster) == PartitionAssignment((3, 4, 5))
        leader, isr, epoch = await cluster.lead("t")
        assert (leader, isr) == (3, [3, 4, 5])
        assert epoch > 1
        assert cluster.brokers[1].stopped[T0][0]
        assert cluster.brokers[2].stopped[T0][0]
        assert T0 not in cluster.brokers[4].stopped
        assert tuple(cluster.brokers[3].roles[T0].replicas) == (3, 4, 5)
        assert await controller.list_partition_reassignments(None) == {}

    tell(story, 6)


def test_a_move_that_keeps_the_leader(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1, 2]])
        await controller.alter_partition_reassignments({T0: [1, 0]})
        await cluster.set_isr("t", [1, 2, 0])
        assert await assignment(cluster) == PartitionAssignment((1, 0))
        assert (await cluster.lead("t"))[:2] == (1, [1, 0])
        assert tuple(cluster.brokers[1].roles[T0].replicas) == (1, 0)
        # The replicas changed, the leader did not: only a higher epoch makes the leader accept that.
        assert cluster.brokers[1].roles[T0].leader_epoch == (await cluster.lead("t"))[2]

    tell(story)


def test_cancelling(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[0, 1]])
        await controller.alter_partition_reassignments({T0: [2, 1]})
        assert errors(await controller.alter_partition_reassignments({T0: None})) == [None]
        await cluster.settle()
        assert sorted((await assignment(cluster)).replicas) == [0, 1]
        assert not (await assignment(cluster)).is_being_reassigned
        assert cluster.brokers[2].stopped[T0][0]
        assert (await cluster.lead("t"))[:2] == (0, [0, 1])
        outcome = await controller.alter_partition_reassignments({T0: None})
        assert errors(outcome) == [Error.NO_REASSIGNMENT_IN_PROGRESS]

    tell(story)


def test_replacing(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[0, 1]])
        await controller.alter_partition_reassignments({T0: [2, 1]})
        await controller.alter_partition_reassignments({T0: [3, 1]})
        await cluster.settle()
        assert await assignment(cluster) == PartitionAssignment((3, 1, 0), adding=(3,), removing=(0,))
        assert cluster.brokers[2].stopped[T0][0]
        await cluster.set_isr("t", [0, 1, 3])
        assert await assignment(cluster) == PartitionAssignment((3, 1))
        assert (await cluster.lead("t"))[:2] == (3, [1, 3])

    tell(story, 4)


def test_refusals(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[0, 1]])
        for target in ([], [0, 0], [-1, 0], [0, 9]):
            outcome = await controller.alter_partition_reassignments({T0: target})
            assert errors(outcome) == [Error.INVALID_REPLICA_ASSIGNMENT]
        outcome = await controller.alter_partition_reassignments({T1: [0], TopicPartition("u", 0): None})
        assert set(errors(outcome)) == {
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            Error.NO_REASSIGNMENT_IN_PROGRESS,
        }

    tell(story)


def test_the_next_controller_goes_on(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await cluster.controllers[0].alter_partition_reassignments({T0: [3, 2]})
        await cluster.stand(1)
        await cluster.kill_broker(0)
        assert (await assignment(cluster)).adding == (3,)
        assert cluster.brokers[3].roles[T0].controller_epoch == 2
        await cluster.set_isr("t", [1, 2, 3])
        assert await assignment(cluster) == PartitionAssignment((3, 2))
        assert (await cluster.lead("t"))[0] == 3

    tell(story, 4)


def test_moves_asked_for_through_the_znode(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1], [1, 2]])
        asked = {T0: (2, 1), T1: (1, 0), TopicPartition("u", 0): (0,)}
        path = ReassignPartitionsZnode.PATH
        await cluster.operator.create(path, ReassignPartitionsZnode.encode(asked))
        await cluster.settle()
        data, _ = await cluster.operator.get(path)
        assert ReassignPartitionsZnode.decode(data) == {T0: (2, 1), T1: (1, 0)}
        await cluster.set_isr("t", [0, 1, 2], 0)
        data, _ = await cluster.operator.get(path)
        assert ReassignPartitionsZnode.decode(data) == {T1: (1, 0)}
        await cluster.set_isr("t", [0, 1, 2], 1)
        assert await cluster.operator.exists(path) is None
        assert await assignment(cluster, 0) == PartitionAssignment((2, 1))
        assert await assignment(cluster, 1) == PartitionAssignment((1, 0))
        # And the next request through the node is seen.
        await cluster.operator.create(path, ReassignPartitionsZnode.encode({T0: (1, 2)}))
        await cluster.settle()
        assert await assignment(cluster, 0) == PartitionAssignment((1, 2))
        assert await cluster.operator.exists(path) is None

    tell(story)


def test_a_topic_that_moves_is_not_deleted_yet(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        await cluster.controllers[0].alter_partition_reassignments({T0: [2, 1]})
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assert await cluster.store.read_topics() == ["t"]
        await cluster.set_isr("t", [0, 1, 2])
        assert await cluster.store.read_topics() == []

    tell(story)


def test_a_move_waits_for_somebody_to_lead_it(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        await cluster.controllers[0].alter_partition_reassignments({T0: [2]})
        await cluster.kill_broker(2)
        assert (await assignment(cluster)).adding == (2,)
        assert (await cluster.lead("t"))[0] == 0
        await cluster.start_broker(2)
        await cluster.settle()
        assert cluster.brokers[2].roles[T0].leader == 0
        await cluster.set_isr("t", [0, 1, 2])
        assert await assignment(cluster) == PartitionAssignment((2,))
        assert (await cluster.lead("t"))[:2] == (2, [2])

    tell(story)


def test_many_moves_write_each_topic_once(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]] * 100)
        targets = {TopicPartition("t", partition): [2, 1] for partition in range(100)}
        before = (await cluster.store.read_topic("t"))[1]
        cluster.forget()
        await cluster.controllers[0].alter_partition_reassignments(targets)
        await cluster.settle()
        assert (await cluster.store.read_topic("t"))[1] == before + 1
        assert len(cluster.brokers[2].received) <= 4
        assert len(cluster.brokers[2].roles) == 100

    tell(story)


def with_only_an_added_replica_in_sync(unclean: str) -> Callable[[Any], Any]:
    async def prepare(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await cluster.store.change_config(
            "topics", "t", lambda config: {**config, "unclean.leader.election.enable": unclean}
        )
        await cluster.controllers[0].alter_partition_reassignments({T0: [3, 4]})
        await cluster.settle()
        await cluster.set_isr("t", [1, 2, 3])
        await cluster.kill_broker(1)
        await cluster.kill_broker(2)
        assert (await cluster.lead("t"))[:2] == (3, [3])

    return prepare


def test_the_only_replica_in_sync_is_not_deleted_by_cancelling(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await with_only_an_added_replica_in_sync("false")(cluster)
        for target in (None, [4, 2, 1]):
            outcome = await controller.alter_partition_reassignments({T0: target})
            assert errors(outcome) == [Error.INVALID_REPLICA_ASSIGNMENT]
            await cluster.settle()
            assert T0 not in cluster.brokers[3].stopped
            assert (await cluster.lead("t"))[:2] == (3, [3])
            assert (await assignment(cluster)).target == (3, 4)
        await cluster.start_broker(1)
        await cluster.set_isr("t", [3, 1])
        assert errors(await controller.alter_partition_reassignments({T0: None})) == [None]
        await cluster.settle()
        assert (await cluster.lead("t"))[:2] == (1, [1])
        assert cluster.brokers[3].stopped[T0][0]

    tell(story, 5)


def test_the_only_replica_in_sync_is_not_deleted_through_the_znode(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await with_only_an_added_replica_in_sync("false")(cluster)
        await cluster.operator.create(
            ReassignPartitionsZnode.PATH, ReassignPartitionsZnode.encode({T0: (1, 2)})
        )
        await cluster.settle()
        assert T0 not in cluster.brokers[3].stopped
        assert await cluster.operator.exists(ReassignPartitionsZnode.PATH) is None

    tell(story, 5)


def test_cancelling_where_unclean_elections_are_allowed(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await with_only_an_added_replica_in_sync("true")(cluster)
        outcome = await cluster.controllers[0].alter_partition_reassignments({T0: None})
        assert errors(outcome) == [None]
        await cluster.settle()
        assert cluster.brokers[3].stopped[T0][0]
        assert (await cluster.lead("t"))[0] == -1
        await cluster.start_broker(2)
        await cluster.settle()
        assert (await cluster.lead("t"))[:2] == (2, [2])

    tell(story, 5)


def test_an_isr_that_shrinks_while_a_move_is_completed(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1]])
        await controller.alter_partition_reassignments({T0: [2]})
        store = controller._store
        read = store.read_partition_states
        reads = 0

        async def read_and_shrink(partitions: Any) -> Any:
            nonlocal reads
            states = await read(partitions)
            reads += 1
            if reads == 2:  # the notification is handled first, then the check whether the move is complete
                shrunk = states[T0].with_isr((BrokerId(1),))
                await cluster.store.write_isr(T0, shrunk, states[T0].zk_version)
            return states

        store.read_partition_states = read_and_shrink
        await cluster.set_isr("t", [1, 2])
        assert reads > 2
        assert (await cluster.lead("t"))[:2] == (1, [1])
        assert T0 not in cluster.brokers[1].stopped
        assert (await assignment(cluster)).is_being_reassigned
        await cluster.set_isr("t", [1, 2])
        assert (await cluster.lead("t"))[:2] == (2, [2])
        assert cluster.brokers[1].stopped[T0][0]
        assert await assignment(cluster) == PartitionAssignment((2,))

    tell(story)


def test_an_isr_that_shrinks_while_a_move_is_cancelled(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.create_topic("t", [[1]])
        await controller.alter_partition_reassignments({T0: [2]})
        await cluster.set_isr("t", [1])
        store = controller._store
        write = store.set_topic_assignment
        state = await cluster.state("t")
        await cluster.store.write_isr(T0, state.with_isr((BrokerId(1), BrokerId(2))), state.zk_version)

        async def write_and_shrink(*args: Any) -> Any:
            store.set_topic_assignment = write
            await write(*args)
            state = await cluster.state("t")
            await cluster.store.write_isr(T0, state.with_isr((BrokerId(2),)), state.zk_version)

        store.set_topic_assignment = write_and_shrink
        await controller.alter_partition_reassignments({T0: None})
        await cluster.settle()
        assert cluster.brokers[2].stopped[T0][0] is False
        await controller.alter_partition_reassignments({T0: [2]})
        await cluster.settle()
        assert (await cluster.lead("t"))[:2] == (2, [2])

    tell(story)
