"""The controller's requests: which controller and epoch are accepted, and the answers."""

import errno

import pytest
import trio
import trio.testing

from cluster.replication.periodic_tasks import AllDirectoriesFailedError
from storage.log_config import LogConfig
from storage.store import LogStore
from tests.unit.replication.in_memory import (
    P0,
    TOPIC,
    TOPIC_ID,
    fetch_request,
    leader_and_isr,
    partitions_of,
    update_metadata,
)
from wire.errors import Error
from wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from wire.types import LEADER_DURING_DELETE, NO_TOPIC_ID, TopicId, TopicPartition

OTHER_ID = TopicId(bytes(reversed(range(16))))


def stop(broker, *, delete=True, epoch=-2, partition=0, **rest):
    rest.setdefault("controller_epoch", 1)
    request = StopReplicaRequest(
        topic_states=[
            StopReplicaTopicState(
                topic_name=TOPIC,
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=partition, leader_epoch=epoch, delete_partition=delete
                    )
                ],
            )
        ],
        **rest,
    )
    response = broker.run(broker.replicas.roles.stop_replicas, request)
    return Error(response.error_code), [Error(one.error_code) for one in response.partition_errors]


def restart(broker):
    """Restart the broker on the same disk."""
    broker.store.close(clean=True)
    broker.store = LogStore.open([f"/data{broker.broker_id}"], LogConfig(), {}, broker.clock, broker.disk)
    broker.replicas = broker.make_replicas()
    broker.live(1, 2, 3)


# LeaderAndIsr


def test_only_a_higher_leader_epoch_changes_a_partition(broker):
    broker.lead(epoch=5)
    assert broker.order(2, epoch=4) == [Error.STALE_CONTROLLER_EPOCH]
    assert broker.order(2, epoch=5) == [Error.STALE_CONTROLLER_EPOCH]
    assert broker.partition.is_leader
    assert broker.order(2, epoch=6) == [Error.NONE]
    assert not broker.partition.is_leader


def test_an_older_controller_is_refused(broker):
    broker.lead(controller_epoch=7)
    assert broker.order(2, controller_epoch=6) == [Error.STALE_CONTROLLER_EPOCH]
    assert broker.last_response.error_code == Error.STALE_CONTROLLER_EPOCH
    assert broker.partition.is_leader


@pytest.mark.parametrize(
    ("sent", "error"), [(9, Error.STALE_BROKER_EPOCH), (10, Error.NONE), (11, Error.NONE), (-1, Error.NONE)]
)
def test_a_request_for_an_earlier_life_of_the_broker_is_refused(broker, sent, error):
    broker.replicas.broker_epoch = 10
    assert broker.order(1, broker_epoch=sent) == [error]


def test_who_is_not_assigned_takes_no_role(broker):
    assert broker.order(2, (2, 3), (2, 3)) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert len(broker.replicas.hosted) == 0


def test_another_topics_id_is_refused_and_deletes_nothing(broker):
    broker.lead()
    broker.produce(3)
    assert broker.order(1, topic_id=OTHER_ID) == [Error.INCONSISTENT_TOPIC_ID]
    assert broker.partition.log.log_end_offset == 3


def test_a_topic_id_is_filled_in_under_the_same_epoch(broker):
    broker.lead(topic_id=TopicId(bytes(16)), epoch=3)
    assert broker.order(1, epoch=3) == [Error.NONE]
    assert broker.partition.topic_id == TopicId(bytes(range(16)))
    assert broker.order(1, epoch=3) == [Error.STALE_CONTROLLER_EPOCH]


def test_an_emptied_disk_does_not_lead(broker):
    assert broker.order(1, isr=(1, 2), is_new=False) == [Error.KAFKA_STORAGE_ERROR]
    assert len(broker.replicas.hosted) == 0
    assert broker.store.get(P0) is None


def test_a_partition_younger_than_the_directories_was_never_made_here(broker):
    broker.store.identity.write("cluster", broker.broker_id, 100)
    broker.zookeeper.births = {P0: 101}
    assert broker.order(1, isr=(1, 2), is_new=False) == [Error.NONE]
    assert broker.partition.is_leader


def test_a_partition_older_than_the_youngest_directory_is_missed(broker):
    broker.store.identity.write("cluster", broker.broker_id, 100)
    broker.zookeeper.births = {P0: 100}
    assert broker.order(1, isr=(1, 2), is_new=False) == [Error.KAFKA_STORAGE_ERROR]


def test_a_log_that_a_checkpoint_names_is_missed_however_young(broker):
    broker.store.identity.write("cluster", broker.broker_id, 100)
    broker.zookeeper.births = {P0: 101}
    broker.lead()
    broker.produce(1)
    broker.replicas.upkeep.write_last_checkpoint()
    broker.store.close()
    broker.disk.remove_directory(f"/data{broker.broker_id}/{TOPIC}-0")
    broker.store = LogStore.open([f"/data{broker.broker_id}"], LogConfig(), {}, broker.clock, broker.disk)
    broker.store.identity.write("cluster", broker.broker_id, 200)
    broker.replicas = broker.make_replicas()
    assert broker.order(1, isr=(1, 2), is_new=False) == [Error.KAFKA_STORAGE_ERROR]


def test_an_offline_directory_may_hold_what_is_missing(broker):
    broker.store.close()
    broker.store = LogStore.open(["/a", "/b"], LogConfig(), {}, broker.clock, broker.disk)
    broker.store.identity.write("cluster", broker.broker_id, 100)
    broker.replicas = broker.make_replicas()
    broker.zookeeper.births = {P0: 101}
    broker.store.directories[0].fail(OSError(errno.EIO, "broken"), "a test")
    assert broker.order(1, isr=(1, 2), is_new=False) == [Error.KAFKA_STORAGE_ERROR]


def test_an_emptied_disk_may_follow_once_it_is_out_of_the_isr(broker):
    assert broker.order(2, isr=(1, 2), is_new=False) == [Error.KAFKA_STORAGE_ERROR]
    assert broker.order(2, isr=(2,), is_new=False) == [Error.NONE]


def test_settings_that_change_while_a_log_is_made_are_its_own(broker):
    read = broker.zookeeper.read_configs
    changed = LogConfig(min_insync_replicas=2)

    async def read_and_change(entity_type, names):
        found = await read(entity_type, names)
        if not broker.zookeeper.configs:
            broker.zookeeper.configs[TOPIC] = {"min.insync.replicas": "2"}
            broker.store.update_topic_configs({TOPIC: changed})
        return found

    broker.zookeeper.read_configs = read_and_change
    assert broker.lead().log.config.min_insync_replicas == 2


def test_answers_by_version(broker):
    request = leader_and_isr(1, (1,), (1,), 1, is_new=True)
    response = broker.run(broker.replicas.roles.become_leader_or_follower, request, 4)
    assert [(one.topic_name, one.partition_index) for one in response.partition_errors] == [(TOPIC, 0)]
    assert not response.topics
    old = LeaderAndIsrRequest(
        controller_epoch=1,
        ungrouped_partition_states=[
            LeaderAndIsrPartitionState(
                topic_name="old", leader=1, leader_epoch=1, isr=[1], replicas=[1], is_new=True
            )
        ],
    )
    response = broker.run(broker.replicas.roles.become_leader_or_follower, old, 1)
    assert [(one.topic_name, one.error_code) for one in response.partition_errors] == [("old", 0)]


def test_coordinators_are_told_whose_leadership_changed(broker):
    notified = []
    broker.replicas.roles.on_leadership_change.append(
        lambda leading, following: notified.append((leading, following))
    )
    broker.lead()
    broker.lead()  # leads on, in a new epoch
    broker.follow(2)
    broker.follow(2)
    broker.lead()
    assert notified == [([(P0, 1)], []), ([], [(P0, 3)]), ([], [(P0, 4)]), ([(P0, 5)], [])]


def test_a_frame_of_a_kraft_controller_is_refused_and_changes_nothing(broker):
    roles = broker.replicas.roles
    epoch = roles.controller_epoch
    request = LeaderAndIsrRequest(is_kraft_controller=True, controller_epoch=epoch + 100)
    response = broker.run(roles.become_leader_or_follower, request, 7)
    assert response.error_code == Error.INVALID_REQUEST
    assert roles.controller_epoch == epoch


def test_many_partitions_change_in_slices(broker):
    turns = 0

    async def main():
        async def count():
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await broker.replicas.roles.become_leader_or_follower(
                leader_and_isr(1, (1,), (1,), 1, range(300), is_new=True), 7
            )
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert len(broker.replicas.hosted) == 300
    assert turns > 8


def test_a_stale_znode_version_changes_nothing(broker):
    partition = broker.lead(zk_version=9)
    assert broker.order(2, zk_version=8) == [Error.NONE]
    assert partition.is_leader


# High watermarks over a restart


def test_the_high_watermark_comes_back_from_its_checkpoint(broker):
    broker.lead(isr=(1, 2), replicas=(1, 2))
    broker.produce(5)
    broker.fetch(4, follower=2)
    broker.replicas.upkeep.write_last_checkpoint()
    restart(broker)
    assert broker.order(1, isr=(1, 2), replicas=(1, 2), is_new=False) == [Error.NONE]
    log = broker.partition.log
    assert (log.high_watermark, log.log_end_offset) == (4, 5)


def test_without_a_leader_a_replica_is_hosted_and_its_high_watermark_kept(broker):
    broker.lead(isr=(1,), replicas=(1, 2))
    broker.produce(5)
    broker.replicas.upkeep.write_last_checkpoint()
    restart(broker)
    assert broker.order(-1, isr=(2,), replicas=(1, 2), is_new=False) == [Error.NONE]
    assert broker.replicas.upkeep.high_watermarks() == {P0: 5}


def test_a_checkpoint_keeps_what_no_order_has_named_yet(broker):
    broker.lead(partitions=(0, 1))
    broker.produce(5)
    broker.replicas.upkeep.write_last_checkpoint()
    before = broker.store.checkpoints.read_high_watermarks()
    assert len(before) == 2
    restart(broker)
    broker.order(1, isr=(1,), replicas=(1,), is_new=False)
    broker.replicas.upkeep.write_last_checkpoint()
    assert broker.store.checkpoints.read_high_watermarks().keys() == before.keys()


def test_checkpoints_wait_for_the_first_order(broker):
    assert not broker.replicas.roles.populated.is_set()
    broker.lead()
    assert broker.replicas.roles.populated.is_set()


# StopReplica


def test_stopping_keeps_the_log_and_deleting_does_not(broker):
    broker.follow(2)
    assert stop(broker, delete=False, epoch=5) == (Error.NONE, [Error.NONE])
    assert broker.store.get(P0) is not None
    assert broker.replicas.fetcher_pool.state_of(P0) is None
    notified = []
    broker.replicas.roles.on_stopped.append(notified.append)
    assert stop(broker, delete=True) == (Error.NONE, [Error.NONE])
    assert broker.store.get(P0) is None
    assert notified == [[(P0, None)]]


def test_a_topics_counters_go_with_its_last_replica(broker):
    broker.lead(partitions=(0, 1))
    broker.produce(1)

    def counted() -> bool:
        samples = (each for family in broker.metrics.registry for each in family.samples())
        return any(TOPIC in dict(each.labels).values() for each in samples)

    assert counted()
    stop(broker, partition=0)
    assert counted()
    stop(broker, partition=1)
    assert not counted()


def test_a_log_without_a_partition_is_deleted_too(broker):
    broker.lead()
    restart(broker)
    assert broker.store.get(P0) is not None
    assert stop(broker) == (Error.NONE, [Error.NONE])
    assert broker.store.get(P0) is None


def test_an_older_leader_epoch_deletes_nothing(broker):
    broker.lead(epoch=5)
    assert stop(broker, epoch=4) == (Error.NONE, [Error.FENCED_LEADER_EPOCH])
    assert broker.partition.is_leader


def test_an_older_controller_or_registration_stops_nothing(broker):
    broker.lead(controller_epoch=7)
    assert stop(broker, controller_epoch=6) == (Error.STALE_CONTROLLER_EPOCH, [])
    broker.replicas.broker_epoch = 10
    assert stop(broker, controller_epoch=7, broker_epoch=9) == (Error.STALE_BROKER_EPOCH, [])
    assert broker.partition.is_leader


def test_deleting_answers_who_waits(broker):
    broker.lead()
    produce, fetch = broker.produce(acks=-1), broker.fetch(5)
    stop(broker)
    assert produce
    assert fetch.responses


def test_a_topic_made_again_starts_empty(broker):
    broker.lead()
    broker.produce(5)
    stop(broker)
    assert broker.order(1, topic_id=OTHER_ID, epoch=0) == [Error.NONE]
    log = broker.partition.log
    assert (log.log_end_offset, log.high_watermark, log.topic_id) == (0, 0, OTHER_ID)


def test_older_forms_of_stop_replica(broker):
    broker.lead(partitions=(0, 1))
    grouped = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
    )
    ungrouped = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name=TOPIC, partition_index=1)],
    )
    for request in (grouped, ungrouped):
        broker.run(broker.replicas.roles.stop_replicas, request)
    assert not broker.store.all_logs()


# UpdateMetadata


def test_an_older_controllers_metadata_is_refused(broker):
    broker.lead(controller_epoch=7)
    before = broker.metadata.snapshot
    response = broker.run(broker.replicas.roles.update_metadata, update_metadata((1,), {}))
    assert response.error_code == Error.STALE_CONTROLLER_EPOCH
    assert broker.metadata.snapshot is before


@pytest.mark.parametrize(
    ("change", "is_left"),
    [
        ({"replicas": [2, 3], "leader_epoch": 6}, True),
        ({"replicas": [2, 3], "leader_epoch": 5}, False),
        ({"replicas": [2, 3], "leader_epoch": 6, "leader": LEADER_DURING_DELETE}, False),
        ({"replicas": [2, 1], "leader_epoch": 6}, False),
    ],
    ids=["elsewhere", "no newer epoch", "being deleted", "still here"],
)
@pytest.mark.parametrize("topic_id", [TOPIC_ID, NO_TOPIC_ID, OTHER_ID], ids=["same", "none", "another"])
def test_a_role_ends_where_a_newer_epoch_has_the_partition_elsewhere(broker, change, is_left, topic_id):
    broker.lead(epoch=5)
    broker.produce(3)
    left = []
    broker.replicas.roles.on_stopped.append(left.extend)
    request = update_metadata((1, 2, 3), {})
    (topic,) = request.topic_states
    topic.topic_id = topic_id
    for name, value in change.items():
        setattr(topic.partition_states[0], name, value)
    broker.run(broker.replicas.roles.update_metadata, request)
    is_left = is_left and topic_id != OTHER_ID
    assert (broker.replicas.hosted.get(P0) is None) is is_left
    assert left == ([(P0, 6)] if is_left else [])
    # The data stays until StopReplica says otherwise.
    assert broker.store.get(P0).log_end_offset == 3


# Failed directories


def run_upkeep(broker, seconds=1.0):
    async def main():
        with trio.move_on_after(seconds):
            await broker.replicas.upkeep.run(broker.replicas.roles.populated)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_failed_directory_takes_its_partitions_offline(make_broker):
    broker = make_broker()
    broker.store.close()
    broker.store = LogStore.open(["/a", "/b"], LogConfig(), {}, broker.clock, broker.disk)
    broker.replicas = broker.make_replicas()
    broker.live(1, 2, 3)
    broker.lead(isr=(1,), replicas=(1,), partitions=(0, 1))
    log_directories = {log.topic_partition: log.log_directory for log in broker.store.all_logs()}
    assert len(set(log_directories.values())) == 2

    async def main():
        with trio.move_on_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.replicas.upkeep.run, broker.replicas.roles.populated)
                await trio.sleep(1)
                log_directories[P0].fail(OSError(errno.EIO, "broken"), "a test")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    (result,) = broker.produce()[0].values()
    assert result.error is Error.KAFKA_STORAGE_ERROR
    call = broker.call_fetch(fetch_request({0: 0}))
    assert partitions_of(call)[0].error_code == Error.KAFKA_STORAGE_ERROR
    assert broker.produce(key=TopicPartition(TOPIC, 1))[0].popitem()[1].error is Error.NONE
    assert broker.order(1, isr=(1,), replicas=(1,)) == [Error.KAFKA_STORAGE_ERROR]
    assert broker.zookeeper.directory_events == 1


def test_without_any_directory_the_broker_stops(broker):
    broker.lead()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.replicas.upkeep.run, broker.replicas.roles.populated)
            await trio.sleep(1)
            broker.store.directories[0].fail(OSError(errno.EIO, "broken"), "a test")
            await trio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert caught.group_contains(AllDirectoriesFailedError)


def test_a_partition_without_data_is_retained_quietly(broker):
    broker.lead()
    assert trio.run(broker.replicas.upkeep.retain_once) == 0
