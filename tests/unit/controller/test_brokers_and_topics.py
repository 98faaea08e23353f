"""Topics are created, brokers come and go: what is written, and which requests go to whom in which order."""

from collections.abc import Callable
from typing import Any

import trio

from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint
from wire.messages.leader_and_isr import LeaderAndIsrRequest
from wire.messages.stop_replica import StopReplicaRequest
from wire.messages.update_metadata import UpdateMetadataRequest
from wire.types import TopicPartition

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def test_becoming_controller_tells_everyone_who_lives(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        assert controller.is_active
        assert controller.epoch == 1
        for broker in cluster.brokers.values():
            assert broker.heard_kinds() == ["UpdateMetadataRequest"]
            assert broker.live_brokers == {0, 1, 2}
            assert broker.received[0].controller_epoch == 1
            assert broker.received[0].broker_epoch == broker.epoch

    tell(story)


def test_a_new_topic_gets_leaders(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.forget()
        await cluster.create_topic("t", [[0, 1, 2], [1, 2, 0]])
        assert await cluster.lead("t", 0) == (0, [0, 1, 2], 0)
        assert await cluster.lead("t", 1) == (1, [1, 2, 0], 0)
        for broker in cluster.brokers.values():
            assert broker.heard_kinds() == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]
            assert broker.roles[T0].is_new
            assert broker.roles[T1].leader == 1
            assert broker.metadata[T1].leader == 1
            leaders = {leader.broker_id: leader.host_name for leader in broker.received[0].live_leaders}
            assert leaders == {0: "b0", 1: "b1"}

    tell(story)


def test_who_waits_is_told_when_every_live_broker_has_heard(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        async def wait_heard() -> None:
            await cluster.controllers[0].wait_heard()
            received.append({broker for broker, each in cluster.brokers.items() if T0 in each.metadata})

        received: list[set[int]] = []
        cluster.brokers[1].is_deaf = cluster.brokers[2].is_deaf = True
        await cluster.create_topic("t", [[0, 1, 2]])
        cluster.nursery.start_soon(wait_heard)
        cluster.nursery.start_soon(wait_heard)
        await cluster.settle()
        assert received == []
        cluster.brokers[1].is_deaf = False
        await cluster.pass_time(0.2)
        assert received == [], "one has not heard"
        await cluster.kill_broker(2)
        assert received == [{0, 1}, {0, 1}], "a broker that has gone is not waited for"

    tell(story)


def test_a_broker_that_shuts_down_is_not_waited_for(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await controller.controlled_shutdown(2, cluster.brokers[2].epoch)
        cluster.brokers[2].is_deaf = True
        await cluster.create_topic("t", [[0, 1]])
        with trio.fail_after(1):
            await controller.wait_heard()
        assert T0 in cluster.brokers[1].metadata

    tell(story)


def test_dead_replicas_are_left_out_of_a_new_topic(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[5, 1, 2], [5, 6]])
        assert await cluster.lead("t", 0) == (1, [1, 2], 0)
        assert await cluster.store.read_partition_state(T1) is None
        await cluster.start_broker(6)
        await cluster.settle()
        assert await cluster.lead("t", 1) == (6, [6], 0)
        assert cluster.brokers[6].roles[T1].leader == 6

    tell(story)


def test_a_topic_without_id_gets_one(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        path = "/brokers/topics/old"
        await cluster.operator.create(path, b'{"version":1,"partitions":{"0":[0,1]}}')
        await cluster.settle()
        found = await cluster.store.read_topic("old")
        assert found[0].topic_id is not None
        request = cluster.brokers[0].of_kind(LeaderAndIsrRequest)[-1]
        assert request.topic_states[0].topic_id == found[0].topic_id

    tell(story)


def test_a_dead_leader_is_replaced_and_leaves_the_isr(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2, 0]])
        await cluster.kill_broker(1)
        assert await cluster.lead("t") == (2, [2, 0], 1)
        for broker_id in (0, 2):
            broker = cluster.brokers[broker_id]
            assert broker.roles[T0].leader == 2
            assert not broker.roles[T0].is_new
            assert list(broker.metadata[T0].offline_replicas) == [1]
            assert broker.live_brokers == {0, 2}

    tell(story)


def test_a_dead_follower_leaves_the_isr(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        cluster.forget()
        await cluster.kill_broker(2)
        assert await cluster.lead("t") == (0, [0, 1], 1)
        assert cluster.brokers[0].roles[T0].isr == (0, 1)
        assert cluster.brokers[0].heard_kinds() == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]

    tell(story)


def test_the_last_of_the_isr_stays_and_leads_again(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await cluster.kill_broker(1)
        await cluster.kill_broker(2)
        leader, isr, _ = await cluster.lead("t")
        assert (leader, isr) == (-1, [2])
        assert cluster.brokers[0].metadata[T0].leader == -1
        await cluster.start_broker(1)
        await cluster.settle()
        assert (await cluster.lead("t"))[0] == -1
        await cluster.start_broker(2)
        await cluster.settle()
        leader, isr, _ = await cluster.lead("t")
        assert (leader, isr) == (2, [2])
        assert cluster.brokers[1].roles[T0].leader == 2

    tell(story)


def test_unclean_where_the_topic_allows_it(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await cluster.kill_broker(1)
        await cluster.kill_broker(2)
        await cluster.start_broker(1)
        await cluster.settle()
        assert (await cluster.lead("t"))[0] == -1
        await cluster.store.change_config(
            "topics", "t", lambda config: {**config, "unclean.leader.election.enable": "true"}
        )
        cluster.controllers[0].unclean_election_enabled("t")
        await cluster.settle()
        leader, isr, _ = await cluster.lead("t")
        assert (leader, isr) == (1, [1])
        assert cluster.brokers[1].roles[T0].leader_recovery_state == 1
        assert cluster.controllers[0].describe()["unclean_elections"] == 1

    tell(story)


def test_a_restarted_broker_hears_everything(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        await cluster.kill_broker(2)
        broker = await cluster.start_broker(2)
        await cluster.settle()
        assert broker.heard_kinds()[:2] == ["UpdateMetadataRequest", "LeaderAndIsrRequest"]
        assert broker.metadata[T0].leader == 0
        assert broker.roles[T0].leader == 0
        assert {request.broker_epoch for request in broker.received} == {broker.epoch}

    tell(story)


def test_a_bounce_faster_than_any_watch_is_a_death(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2, 0]])
        old = cluster.brokers[1]
        # The registration goes and comes back between two looks of the controller: only the epoch shows it.
        old.zookeeper.abandon()
        cluster.ensemble.expire(old.zookeeper.session_id)
        broker = await cluster.start_broker(1)
        await cluster.settle()
        assert await cluster.lead("t") == (2, [2, 0], 1)
        assert broker.epoch > old.epoch
        assert broker.roles[T0].leader == 2
        assert {request.broker_epoch for request in broker.received} == {broker.epoch}

    tell(story)


def test_partitions_are_added(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        assignment, version = await cluster.store.read_topic("t")
        await cluster.store.set_topic_assignment(
            "t",
            type(assignment)(
                assignment.topic_id,
                {**assignment.partitions, 1: type(assignment.partitions[0])((2, 1))},
            ),
            version,
        )
        await cluster.settle()
        assert await cluster.lead("t", 1) == (2, [2, 1], 0)
        assert cluster.brokers[2].roles[T1].leader == 2
        assert T0 not in cluster.brokers[2].roles

    tell(story)


def test_isr_changes_are_told(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        cluster.forget()
        await cluster.set_isr("t", [0, 1])
        broker = cluster.brokers[2]
        assert broker.heard_kinds() == ["UpdateMetadataRequest"]
        assert broker.metadata[T0].isr == (0, 1)
        assert broker.metadata[T0].zk_version == 1
        assert await cluster.operator.children("/isr_change_notification") == []
        # The next decision builds on what the leader wrote.
        await cluster.kill_broker(1)
        assert await cluster.lead("t") == (0, [0], 1)

    tell(story)


def test_a_failed_log_directory(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2], [0, 1]])
        cluster.brokers[1].failed_directories = {T0}
        await cluster.store.propagate_log_dir_event(cluster.brokers[1].broker_id)
        await cluster.settle()
        assert await cluster.lead("t", 0) == (2, [2], 1)
        assert (await cluster.lead("t", 1))[:2] == (0, [0, 1])
        assert list(cluster.brokers[0].metadata[T0].offline_replicas) == [1]
        assert await cluster.operator.children("/log_dir_event_notification") == []

    tell(story)


def test_controlled_shutdown(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2], [0, 1]])
        await cluster.create_topic("alone", [[1]])
        broker = cluster.brokers[1]
        cluster.forget()
        remaining = await cluster.controllers[0].controlled_shutdown(1, broker.epoch)
        await cluster.settle()
        assert remaining == []
        assert await cluster.lead("t", 0) == (2, [2], 1)
        assert await cluster.lead("t", 1) == (0, [0], 1)
        assert broker.of_kind(LeaderAndIsrRequest)
        assert broker.stopped[T1][0] is False
        assert cluster.brokers[0].roles[T1].isr == (0,)
        await cluster.kill_broker(1)
        assert (await cluster.lead("alone"))[0] == -1

    tell(story)


def test_controlled_shutdown_of_the_only_one_in_sync(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        await cluster.set_isr("t", [1])
        assert await cluster.controllers[0].controlled_shutdown(1, cluster.brokers[1].epoch) == [T0]
        await cluster.set_isr("t", [1, 2])
        assert await cluster.controllers[0].controlled_shutdown(1, cluster.brokers[1].epoch) == []
        assert (await cluster.lead("t"))[:2] == (2, [2])

    tell(story)


def test_another_listener_is_told(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.forget()
        broker = cluster.brokers[2]
        endpoint = RegisteredEndpoint("PLAINTEXT", "elsewhere", 9, "PLAINTEXT")
        await BrokerStore(broker.zookeeper).update_registration(
            BrokerRegistration(broker.broker_id, (endpoint,))
        )
        await cluster.settle()
        update = cluster.brokers[0].of_kind(UpdateMetadataRequest)[-1]
        hosts = {each.id: each.endpoints[0].host for each in update.live_brokers}
        assert hosts == {0: "b0", 1: "b1", 2: "elsewhere"}

    tell(story)


def test_a_deaf_broker_hears_in_order_when_it_can(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        broker = cluster.brokers[2]
        cluster.forget()
        broker.is_deaf = True
        await cluster.create_topic("t", [[0, 1, 2]])
        await cluster.set_isr("t", [0, 1])
        await cluster.pass_time(1)
        assert broker.received == []
        assert cluster.controllers[0].describe()["unsent_requests"]["2"] == 3
        broker.is_deaf = False
        await cluster.pass_time(1)
        assert broker.heard_kinds() == [
            "LeaderAndIsrRequest",
            "UpdateMetadataRequest",
            "UpdateMetadataRequest",
        ]
        assert broker.metadata[T0].isr == (0, 1)
        assert not broker.of_kind(StopReplicaRequest)

    tell(story)


def test_many_partitions_go_out_in_one_request(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        cluster.forget()
        await cluster.create_topic("t", [[0, 1, 2]] * 300)
        for broker in cluster.brokers.values():
            assert broker.heard_kinds() == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]
            assert len(broker.roles) == 300

    tell(story)
