"""Topics are deleted, however their brokers and controllers behave meanwhile."""

from collections.abc import Callable
from typing import Any

import trio

from cluster.controller import events
from cluster.controller.deletions import FINISHED_AT_ONCE
from cluster.controller.event_queue import EventQueue
from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.znodes import TopicAssignment
from wire.errors import Error
from wire.messages.stop_replica import StopReplicaRequest
from wire.messages.update_metadata import UpdateMetadataRequest
from wire.types import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, BrokerEpoch, BrokerId, TopicPartition

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)


def test_a_topic_is_deleted(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2], [1, 2, 0]])
        cluster.forget()
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assert await cluster.store.read_topics() == []
        assert await cluster.store.read_topic_deletions() == []
        for broker in cluster.brokers.values():
            assert broker.heard_kinds()[0] == "UpdateMetadataRequest"
            assert broker.metadata[T0].leader == LEADER_DURING_DELETE
            assert broker.stopped[T0] == (True, EPOCH_DURING_DELETE)
            deletes = [
                state.delete_partition
                for message in broker.of_kind(StopReplicaRequest)
                for topic in message.topic_states
                for state in topic.partition_states
            ]
            assert deletes == [False, False, True, True]
        # It can be created again at once, with another id.
        await cluster.create_topic("t", [[2, 1]])
        assert await cluster.lead("t") == (2, [2, 1], 0)

    tell(story)


def test_a_dead_replica_holds_it_up(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        await cluster.kill_broker(2)
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assert cluster.brokers[0].stopped[T0] == (True, EPOCH_DURING_DELETE)
        assert await cluster.store.read_topics() == ["t"]
        assert cluster.controllers[0].describe()["deletions_waiting"] == ["t"]
        broker = await cluster.start_broker(2)
        await cluster.settle()
        assert broker.stopped[T0] == (True, EPOCH_DURING_DELETE)
        assert await cluster.store.read_topics() == []

    tell(story)


def test_a_broker_that_dies_while_deleting(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        cluster.brokers[2].is_deaf = True
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        await cluster.kill_broker(2)
        assert await cluster.store.read_topics() == ["t"]
        await cluster.start_broker(2)
        await cluster.settle()
        assert await cluster.store.read_topics() == []

    tell(story)


def test_an_error_is_tried_again_when_the_broker_restarts(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        cluster.brokers[1].deletion_error = Error.KAFKA_STORAGE_ERROR
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assert await cluster.store.read_topics() == ["t"]
        await cluster.kill_broker(1)
        await cluster.start_broker(1)
        await cluster.settle()
        assert await cluster.store.read_topics() == []

    tell(story)


def test_what_an_earlier_life_was_asked_does_not_hold_it_up(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        cluster.brokers[1].is_deaf = True
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        late = events.DeletionAnswered(BrokerId(1), BrokerEpoch(0), ((T0, Error.STALE_BROKER_EPOCH),))
        cluster.controllers[0]._queue.put(late)
        await cluster.settle()
        cluster.brokers[1].is_deaf = False
        await cluster.pass_time(1)
        assert await cluster.store.read_topics() == []

    tell(story)


def test_the_next_controller_goes_on(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        cluster.brokers[2].is_deaf = True
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        await cluster.stand(1)
        await cluster.kill_broker(0)
        assert await cluster.store.read_topics() == ["t"]
        cluster.brokers[2].is_deaf = False
        await cluster.pass_time(1)
        assert await cluster.store.read_topics() == []

    tell(story)


def test_a_mark_without_a_topic_is_taken_back(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.store.mark_topic_for_deletion("nothing")
        await cluster.settle()
        assert await cluster.store.read_topic_deletions() == []

    tell(story)


def test_deletion_can_be_disabled(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.settings.delete_topic_enable = False
        await cluster.create_topic("t", [[0]])
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assert await cluster.store.read_topics() == ["t"]
        assert await cluster.store.read_topic_deletions() == []

    tell(story)


def test_a_topic_on_its_way_out_gets_no_partitions(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 2]])
        cluster.brokers[2].is_deaf = True
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        assignment, version = await cluster.store.read_topic("t")
        more = {**assignment.partitions, 1: PartitionAssignment((1,))}
        await cluster.store.set_topic_assignment("t", TopicAssignment(assignment.topic_id, more), version)
        await cluster.settle()
        assert list((await cluster.store.read_topic("t"))[0].partitions) == [0]
        cluster.brokers[2].is_deaf = False
        await cluster.pass_time(1)
        assert await cluster.store.read_topics() == []

    tell(story)


def test_a_topic_that_goes_is_not_elected_for(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        cluster.brokers[2].is_deaf = True
        await cluster.store.mark_topic_for_deletion("t")
        await cluster.settle()
        before = await cluster.state("t")
        await cluster.kill_broker(1)
        assert await cluster.state("t") == before
        assert all(
            state.leader == LEADER_DURING_DELETE
            for message in cluster.brokers[0].of_kind(UpdateMetadataRequest)[-1:]
            for topic in message.topic_states
            for state in topic.partition_states
        )

    tell(story)


def test_many_topics_go_some_at_a_time(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("other", [[2, 1]])
        names = [f"t{number}" for number in range(3 * FINISHED_AT_ONCE)]
        for name in names:
            await cluster.create_topic(name, [[0, 1]])
        for name in names:
            await cluster.store.mark_topic_for_deletion(name)
        await cluster.settle()
        assert await cluster.store.read_topics() == ["other"]
        assert await cluster.store.read_topic_deletions() == []

    tell(story)


def test_the_queue_puts_brokers_first() -> None:
    queue = EventQueue()
    queue.put(events.TopicDeletionsChanged())
    queue.put(events.DeletionsLeft())
    queue.put(events.BrokersChanged())
    queue.put(events.DeletionsLeft())

    async def take() -> list[type]:
        return [type(await queue.get()) for _ in range(3)]

    assert trio.run(take) == [events.BrokersChanged, events.TopicDeletionsChanged, events.DeletionsLeft]
