"""Becoming, staying and ceasing to be the controller."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from cluster.controller import channels
from cluster.controller.gauges import COUNTS_KEPT_S, add_gauges
from cluster.controller.state_changes import StateChange
from cluster.metrics.catalogue import BrokerMetrics
from cluster.zookeeper.client import SetData
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.kraft import KraftControllerError
from cluster.zookeeper.znodes import ControllerZnode
from simulation.clock import SimulatedClock
from wire.errors import ApiError, Error
from wire.messages.update_metadata import UpdateMetadataRequest
from wire.types import BrokerId, TopicPartition

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)


def test_the_next_controller_elects_for_the_dead_one(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2], [1, 0, 2]])
        successor = await cluster.stand(1)
        assert not successor.is_active
        assert successor.controller_id == 0
        cluster.forget()
        await cluster.kill_broker(0)
        assert successor.is_active
        assert successor.epoch == 2
        assert await cluster.lead("t", 0) == (1, [1, 2], 1)
        # The dead broker followed here: nobody waits for the leader to notice.
        assert await cluster.lead("t", 1) == (1, [1, 2], 1)
        broker = cluster.brokers[2]
        assert broker.heard_kinds()[0] == "UpdateMetadataRequest"
        assert {message.controller_epoch for message in broker.received} == {2}
        assert broker.live_brokers == {1, 2}

    tell(story)


def test_whoever_hears_of_a_controller_can_ask_it_at_once(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2]])
        successor = await cluster.stand(1)
        was_active = []
        hear = cluster.brokers[2].hear

        def hear_and_look(message: Any) -> Any:
            was_active.append(successor.is_active)
            return hear(message)

        cluster.brokers[2].hear = hear_and_look
        await cluster.kill_broker(0)
        assert len(was_active) > 1
        assert all(was_active)

    tell(story)


def test_what_happened_between_controllers_is_caught_up_with(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("gone", [[1, 2]])
        await cluster.kill_broker(0)
        await cluster.create_topic("t", [[1, 2], [7]])
        await cluster.store.mark_topic_for_deletion("gone")
        await cluster.start_broker(3)
        controller = await cluster.stand(3)
        assert controller.is_active
        assert await cluster.lead("t") == (1, [1, 2], 0)
        assert await cluster.store.read_topics() == ["t"]
        assert await cluster.store.read_topic_deletions() == []

    tell(story)


def test_another_controller_ends_the_term(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller = cluster.controllers[0]
        await cluster.operator.delete(ControllerZnode.PATH, -1)
        rival = ControllerStore(cluster.operator, BrokerId(2))
        await rival.elect(0)
        await cluster.settle()
        assert not controller.is_active
        assert controller.controller_id == 2
        with pytest.raises(ApiError) as caught:
            await controller.controlled_shutdown(1, -1)
        assert caught.value.error is Error.NOT_CONTROLLER
        await rival.resign()
        await cluster.settle()
        assert controller.is_active
        assert controller.epoch == 3

    tell(story)


def test_a_fenced_write_ends_the_term(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        # Another writer raised the epoch, and no watch has fired yet: the first write finds out.
        await cluster.operator.multi([SetData("/controller_epoch", b"9", -1)])
        before = await cluster.state("t")
        cluster.forget()
        await cluster.kill_broker(1)
        # It resigned, found itself still in the controller znode, and took over again under the present epoch.
        assert cluster.controllers[0].epoch == 9
        assert (await cluster.state("t")).controller_epoch == 9
        assert (await cluster.state("t")).leader_epoch == before.leader_epoch + 1

    tell(story)


def test_an_expired_session_ends_the_term_and_a_new_one_may_win_again(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1]])
        controller, broker = cluster.controllers[0], cluster.brokers[0]
        cluster.ensemble.expire(broker.zookeeper.session_id)
        await cluster.settle()
        assert not controller.is_active
        assert controller.controller_id == -1
        await cluster.register(broker)
        controller.registered()
        await cluster.settle()
        assert controller.is_active
        assert controller.epoch == 2

    tell(story)


def test_silence_past_the_timeout_stops_sending(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        controller, broker = cluster.controllers[0], cluster.brokers[0]
        broker.zookeeper.disconnect(silently=True)
        assert controller.is_active
        await cluster.pass_time(broker.zookeeper.session_timeout_s + 1)
        assert not controller.is_active
        cluster.forget()
        controller.unclean_election_enabled("t")
        await cluster.pass_time(1)
        assert all(not each.received for each in cluster.brokers.values())
        broker.zookeeper.reconnect()
        await cluster.pass_time(1)
        assert controller.is_active
        assert controller.epoch == 1

    tell(story)


def test_calls_of_a_lost_office_are_refused(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller, broker = cluster.controllers[0], cluster.brokers[0]
        broker.zookeeper.disconnect()
        refused: list[Error] = []

        async def call() -> None:
            try:
                await controller.controlled_shutdown(2, cluster.brokers[2].epoch)
            except ApiError as error:
                refused.append(error.error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)
            await cluster.pass_time(broker.zookeeper.session_timeout_s + 1)
            cluster.ensemble.expire(broker.zookeeper.session_id)
            broker.zookeeper.reconnect()
            await cluster.pass_time(0.2)
        assert refused == [Error.NOT_CONTROLLER] * 2

    tell(story)


def test_an_interruption_is_caught_up_with(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        zookeeper = cluster.brokers[0].zookeeper
        zookeeper.disconnect()
        await cluster.create_topic("new", [[2, 1]])
        await cluster.kill_broker(1)
        assert (await cluster.lead("t"))[0] == 1
        zookeeper.reconnect()
        await cluster.settle()
        assert await cluster.lead("t") == (2, [2], 1)
        assert (await cluster.lead("new"))[:2] == (2, [2])
        # And everything is watched again.
        await cluster.create_topic("newer", [[2]])
        assert await cluster.lead("newer") == (2, [2], 0)

    tell(story)


@pytest.mark.parametrize("done", [True, False])
def test_a_write_whose_answer_is_lost(tell: Tell, done: bool) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        cluster.brokers[0].zookeeper.lose_next_write(done=done)
        await cluster.kill_broker(1)
        assert await cluster.lead("t") == (2, [2], 1)
        assert cluster.brokers[2].roles[T0].leader == 2

    tell(story)


@pytest.mark.parametrize("done", [True, False])
def test_an_election_whose_answer_is_lost(tell: Tell, done: bool) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start_broker(0)
        cluster.brokers[0].zookeeper.lose_next_write(done=done)
        controller = await cluster.stand(0)
        assert controller.is_active

    tell(story, 0)


def test_resigning(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        successor = await cluster.stand(1)
        await cluster.controllers[0].resign()
        await cluster.settle()
        assert successor.is_active
        assert not cluster.controllers[0].is_active
        assert cluster.controllers[0].controller_id == 1

    tell(story)


def test_kraft_stops_us(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.start_broker(0)
        await cluster.operator.create(
            ControllerZnode.PATH, b'{"version":2,"brokerid":3000,"timestamp":"0","kraftControllerEpoch":4}'
        )
        await cluster.stand(0)

    with pytest.raises(BaseExceptionGroup) as caught:
        tell(story, 0)
    assert caught.group_contains(KraftControllerError, match="KRaft")


def test_a_large_failover_reads_and_tells_in_batches(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 200)
        successor = await cluster.stand(1)
        cluster.forget()
        await cluster.kill_broker(0)
        assert successor.is_active
        assert len(successor.describe()["leaderless"]) == 0
        broker = cluster.brokers[2]
        # All metadata at first; then roles, elections and the dead followers, each with its metadata.
        assert len(broker.received) <= 7
        assert len(broker.of_kind(UpdateMetadataRequest)) <= 4
        for partition in range(600):
            leadership = await cluster.state("t", partition)
            assert leadership.leader in (1, 2)
            assert 0 not in leadership.isr

    tell(story)


def test_what_is_watched(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        metrics = BrokerMetrics()
        changes: list[StateChange] = []
        controller = await cluster.stand(1, metrics=metrics, on_state_change=changes.append)
        add_gauges(controller, metrics, SimulatedClock())

        def value(name: str) -> float:
            cluster.clock.jump(COUNTS_KEPT_S)
            return metrics.registry.values()["kafka_controller_kafkacontroller_" + name]

        assert value("activecontrollercount") == 0
        assert value("globaltopiccount") == 0
        await cluster.create_topic("t", [[0, 1], [1, 2], [0]])
        await cluster.kill_broker(0)
        assert value("activecontrollercount") == 1
        assert (value("globaltopiccount"), value("globalpartitioncount")) == (1, 3)
        assert (value("offlinepartitionscount"), value("preferredreplicaimbalancecount")) == (1, 2)
        assert metrics.leader_elections.only.value == 1
        states = [change.after for change in changes if (change.partition, change.broker_id) == (T0, None)]
        assert states == ["offline", "online"]
        assert changes[-1].controller_epoch == 2
        assert metrics.controller_event_time_ms.of("ControllerChanged").count > 0

    tell(story)


def test_a_broker_that_does_not_listen_costs_no_controller_its_office(tell: Tell, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "MERGE_FROM_REQUESTS", 5)
    monkeypatch.setattr(channels, "MAX_QUEUED_REQUESTS", 20)

    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2], [1, 2]])
        deaf = cluster.brokers[2]
        deaf.is_deaf = True
        for number in range(40):
            await cluster.set_isr("t", [1] if number % 2 else [1, 2], number % 3 // 2)
        controller = cluster.controllers[0]
        assert controller.is_active
        assert controller.describe()["unsent_requests"]["2"] <= 7
        deaf.is_deaf = False
        await cluster.pass_time(0.2)
        assert controller.describe()["unsent_requests"]["2"] == 0
        for partition in range(2):
            known = deaf.metadata[TopicPartition("t", partition)]
            assert (list(known.isr), known.zk_version) == (
                list((await cluster.state("t", partition)).isr),
                (await cluster.state("t", partition)).zk_version,
            )

    tell(story)


def test_a_broker_that_misses_a_request_misses_all_that_follow(tell: Tell, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "MAX_QUEUED_REQUESTS", 4)

    async def story(cluster: Any) -> None:
        deaf = cluster.brokers[2]
        deaf.is_deaf = True
        for number in range(6):
            await cluster.create_topic(f"t{number}", [[1, 2]])
        assert cluster.controllers[0].is_active
        deaf.is_deaf = False
        await cluster.pass_time(0.2)
        await cluster.create_topic("last", [[1, 2]])
        assert TopicPartition("last", 0) not in deaf.roles
        cluster.ensemble.expire(deaf.zookeeper.session_id)
        await cluster.settle()
        await deaf.zookeeper.renew_session()
        await cluster.register(deaf)
        await cluster.settle()
        assert len(deaf.roles) == 7

    tell(story)


def test_a_broker_that_leaves_while_it_is_elected_takes_no_office(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        leaving = await cluster.stand(1)
        elect = leaving._store.elect

        async def elect_and_leave(now: Any) -> Any:
            epoch = await elect(now)
            await leaving.resign()
            return epoch

        leaving._store.elect = elect_and_leave
        staying = await cluster.stand(2)
        await cluster.kill_broker(0)
        assert not leaving.is_active
        assert staying.is_active

    tell(story)
