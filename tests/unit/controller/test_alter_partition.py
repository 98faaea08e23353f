"""ISR changes that Kafka's leaders request, and producer ids for them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cluster.statemachines.leadership import PartitionAssignment
from wire.errors import Error
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from wire.types import BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition, ZkVersion

Tell = Callable[..., None]
T0 = TopicPartition("t", 0)


def topic_id(topic: str) -> TopicId:
    return TopicId(topic.encode().rjust(16, b"\1"))


def asked(
    broker: Any,
    isr: Sequence[int],
    *,
    version: int = 3,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    recovery: int = 0,
    topic: str = "t",
    broker_epoch: int | None = None,
) -> AlterPartitionRequest:
    members = [BrokerId(member) for member in isr]
    return AlterPartitionRequest(
        broker_id=broker.broker_id,
        broker_epoch=BrokerEpoch(broker.epoch if broker_epoch is None else broker_epoch),
        topics=[
            TopicData(
                topic_name=topic if version < 2 else "",
                topic_id=topic_id(topic) if version >= 2 else TopicId(bytes(16)),
                partitions=[
                    PartitionData(
                        partition_index=0,
                        leader_epoch=LeaderEpoch(leader_epoch),
                        new_isr=members if version < 3 else (),
                        new_isr_with_epochs=[BrokerState(broker_id=m) for m in members]
                        if version >= 3
                        else (),
                        leader_recovery_state=recovery,
                        partition_epoch=ZkVersion(partition_epoch),
                    )
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_written_and_told(tell: Tell, version: int) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2, 0]])
        controller, leader = cluster.controllers[0], cluster.brokers[1]
        cluster.forget()
        request = asked(leader, [1, 2], version=version)
        response = await controller.alter_partition(request, version)
        (topic,) = response.topics
        (answer,) = topic.partitions
        assert response.error_code == answer.error_code == Error.NONE
        assert (topic.topic_name, topic.topic_id) == (
            ("t", bytes(16)) if version < 2 else ("", topic_id("t"))
        )
        assert (answer.leader_id, answer.leader_epoch, list(answer.isr), answer.partition_epoch) == (
            1,
            0,
            [1, 2],
            1,
        )
        assert await cluster.lead("t") == (1, [1, 2], 0)
        await cluster.settle()
        assert cluster.brokers[0].heard_kinds() == ["UpdateMetadataRequest"]
        # A repeated request, after a lost answer, gets the same answer, and nothing is written.
        again = await controller.alter_partition(request, version)
        assert again == response
        assert (await cluster.state("t")).zk_version == 1

    tell(story)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"leader_epoch": 9}, Error.NOT_CONTROLLER),
        ({"partition_epoch": 9}, Error.NOT_CONTROLLER),
        ({"leader_epoch": -1}, Error.FENCED_LEADER_EPOCH),
        ({"partition_epoch": -1}, Error.INVALID_UPDATE_VERSION),
        ({"isr": [1, 9]}, Error.INELIGIBLE_REPLICA),
        ({"isr": [1, 9], "version": 1}, Error.OPERATION_NOT_ATTEMPTED),
        ({"isr": []}, Error.INELIGIBLE_REPLICA),
        ({"recovery": 1, "isr": [1]}, Error.INVALID_REQUEST),
        ({"recovery": 1}, Error.INVALID_REQUEST),
        ({"topic": "u"}, Error.UNKNOWN_TOPIC_ID),
        ({"topic": "u", "version": 1}, Error.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_refused(tell: Tell, changes: dict[str, Any], error: Error) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2, 0]])
        request = asked(cluster.brokers[1], **{"isr": [1, 2], **changes})
        response = await cluster.controllers[0].alter_partition(request, changes.get("version", 3))
        assert response.topics[0].partitions[0].error_code == error
        assert await cluster.lead("t") == (1, [1, 2, 0], 0)

    tell(story)


def test_another_life_of_the_broker(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        controller, leader = cluster.controllers[0], cluster.brokers[1]
        for request in (asked(leader, [1], broker_epoch=leader.epoch - 1),):
            assert (await controller.alter_partition(request, 3)).error_code == Error.STALE_BROKER_EPOCH
        assert (await controller.alter_partition(asked(leader, [1]), 3)).error_code == Error.NONE

    tell(story)


def test_it_completes_a_move(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2]])
        controller, leader = cluster.controllers[0], cluster.brokers[1]
        await controller.alter_partition_reassignments({T0: [1, 0]})
        state = await cluster.state("t")
        request = asked(leader, [1, 2, 0], leader_epoch=state.leader_epoch, partition_epoch=state.zk_version)
        response = await controller.alter_partition(request, 3)
        assert response.topics[0].partitions[0].error_code == Error.NONE
        await cluster.settle()
        found, _ = await cluster.store.read_topic("t")
        assert found.partitions[0] == PartitionAssignment((1, 0))

    tell(story)


def test_a_leader_that_wrote_first(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        await cluster.create_topic("t", [[1, 2, 0]])
        leadership = await cluster.state("t")
        # Written without a notification: the controller does not know that version yet.
        await cluster.store.write_isr(T0, leadership.with_isr((1,)), leadership.zk_version)
        response = await cluster.controllers[0].alter_partition(asked(cluster.brokers[1], [1, 2]), 3)
        assert response.topics[0].partitions[0].error_code == Error.INVALID_UPDATE_VERSION
        assert (await cluster.lead("t"))[1] == [1]

    tell(story)


def test_producer_ids(tell: Tell) -> None:
    async def story(cluster: Any) -> None:
        controller, broker = cluster.controllers[0], cluster.brokers[1]

        async def allocate(broker_id: int, epoch: int) -> Any:
            request = AllocateProducerIdsRequest(
                broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(epoch)
            )
            return await controller.allocate_producer_ids(request)

        first, second = await allocate(1, broker.epoch), await allocate(1, broker.epoch)
        assert (first.error_code, first.producer_id_len) == (Error.NONE, 1000)
        assert second.producer_id_start == first.producer_id_start + 1000
        assert (await allocate(1, broker.epoch - 1)).error_code == Error.STALE_BROKER_EPOCH
        assert (await allocate(9, 1)).error_code == Error.BROKER_ID_NOT_REGISTERED
        await controller.resign()
        assert (await allocate(1, broker.epoch)).error_code == Error.NOT_CONTROLLER
        refused = await controller.alter_partition(asked(broker, [1]), 3)
        assert refused.error_code == Error.NOT_CONTROLLER

    tell(story)
