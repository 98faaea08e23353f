"""What every broker writes, with answers lost on purpose and faster rivals."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper import reader
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.change_notifications import EXPIRY_MS
from cluster.zookeeper.client import ANY_VERSION, BadVersionError, NodeExistsError, NoNodeError
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.producer_ids import ProducerIdsExhaustedError
from cluster.zookeeper.registration import BrokerIdTakenError
from cluster.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerIdZnode,
    BrokerRegistration,
    ConfigChangeZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PartitionStateZnode,
    ProducerIdBlock,
    ProducerIdBlockZnode,
    RegisteredEndpoint,
    TopicAssignment,
)
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from wire.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
    WallMs,
    ZkVersion,
)

ONE, TWO = BrokerId(1), BrokerId(2)
TP = TopicPartition("t", 0)
STATE = PartitionLeadership(ONE, LeaderEpoch(0), (ONE,), ControllerEpoch(1), ZkVersion(0))


class Site:
    """An ensemble that keeps time, with two brokers' sessions and stores."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble(wall_ms=lambda: int(trio.current_time() * 1000))
        self.zk = FakeZooKeeper(self.ensemble, 6.0, lambda: MonotonicSeconds(trio.current_time()))
        self.other_zk = FakeZooKeeper(self.ensemble, 6.0)
        self.zk.connect()
        self.other_zk.connect()
        self.store = BrokerStore(self.zk)
        self.other = BrokerStore(self.other_zk)


def run(main: Callable[[Site], Awaitable[None]]) -> None:
    async def in_site() -> None:
        site = Site()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.ensemble.run)
            await site.store.create_persistent_paths()
            await main(site)
            nursery.cancel_scope.cancel()

    trio.run(in_site, clock=trio.testing.MockClock(autojump_threshold=0))


def registration(broker_id: BrokerId, port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration(broker_id, (RegisteredEndpoint("PLAINTEXT", "h", port, "PLAINTEXT"),))


def test_the_persistent_paths_exist_without_data() -> None:
    async def main(site: Site) -> None:
        site.zk.lose_next_write(done=False)
        await site.store.create_persistent_paths()
        for path in PERSISTENT_PATHS:
            assert site.ensemble.tree.read(path).data is None

    run(main)


def test_the_cluster_id_is_the_first_ones() -> None:
    async def main(site: Site) -> None:
        site.zk.lose_next_write(done=True)
        assert await site.store.cluster_id("mine") == "mine"
        assert await site.other.cluster_id("theirs") == "mine"

    run(main)


def test_generated_broker_ids_differ() -> None:
    async def main(site: Site) -> None:
        first = await site.store.generate_broker_id()
        site.zk.lose_next_write(done=True)
        second = await site.store.generate_broker_id()
        assert 0 < first < second < await site.other.generate_broker_id()

    run(main)


@pytest.mark.parametrize("done", [None, True, False])
def test_registering_gives_the_czxid(done: bool | None) -> None:
    async def main(site: Site) -> None:
        if done is not None:
            site.zk.lose_next_write(done=done)
        epoch = await site.store.register(registration(ONE))
        brokers = await site.other.read_brokers()
        assert brokers[ONE].epoch == epoch
        node = site.ensemble.tree.read(BrokerIdZnode.path(ONE))
        assert (node.czxid, node.ephemeral_owner, node.version) == (epoch, site.zk.session_id, 1)
        await site.store.update_registration(registration(ONE, 9999))
        updated = (await site.other.read_brokers())[ONE]
        assert (updated.endpoints[0].port, updated.epoch) == (9999, epoch)

    run(main)


def test_registering_again_after_an_expiry_gives_a_higher_epoch() -> None:
    async def main(site: Site) -> None:
        epoch = await site.store.register(registration(ONE))
        site.ensemble.expire(site.zk.session_id)
        assert await site.other.read_brokers() == {}
        assert await site.store.register(registration(ONE)) > epoch

    run(main)


def test_registering_waits_for_the_node_of_a_dead_session() -> None:
    async def main(site: Site) -> None:
        await site.other.register(registration(ONE))
        site.other_zk.abandon()
        began = trio.current_time()
        await site.store.register(registration(ONE))
        assert trio.current_time() - began == pytest.approx(6.0)

    run(main)


def test_registering_never_takes_the_id_of_a_live_broker() -> None:
    async def main(site: Site) -> None:
        epoch = await site.other.register(registration(ONE))
        with pytest.raises(BrokerIdTakenError):
            await site.store.register(registration(ONE))
        assert (await site.store.read_brokers())[ONE].epoch == epoch

    run(main)


def test_a_broken_registration_hides_one_broker_only() -> None:
    async def main(site: Site) -> None:
        await site.store.register(registration(ONE))
        await site.zk.create("/brokers/ids/7", b"nonsense")
        await site.zk.create("/brokers/ids/x", b"nonsense")
        assert list(await site.other.read_brokers()) == [ONE]

    run(main)


def test_producer_id_blocks_do_not_overlap() -> None:
    async def main(site: Site) -> None:
        first = await site.store.next_producer_id_block(ONE)
        assert first == ProducerIdBlock(ONE, ProducerId(0), ProducerId(999))
        site.zk.lose_next_write(done=True)
        second = await site.store.next_producer_id_block(ONE)
        assert second.first == 2000
        assert (await site.other.next_producer_id_block(TWO)).first == 3000
        await site.zk.delete(ProducerIdBlockZnode.PATH, ANY_VERSION)
        assert (await site.store.next_producer_id_block(ONE)).first == 0
        last = ProducerIdBlock(ONE, ProducerId(0), ProducerId(ProducerIdBlockZnode.LAST_ID - 999))
        await site.zk.set(ProducerIdBlockZnode.PATH, ProducerIdBlockZnode.encode(last), ANY_VERSION)
        with pytest.raises(ProducerIdsExhaustedError):
            await site.store.next_producer_id_block(ONE)

    run(main)


@pytest.mark.parametrize("done", [None, True, False])
def test_an_isr_is_written_at_its_version(done: bool | None) -> None:
    async def main(site: Site) -> None:
        path = PartitionStateZnode.path(TP)
        await site.zk.create(path, PartitionStateZnode.encode(STATE), make_parents=True)
        grown = STATE.with_isr((ONE, TWO))
        if done is not None:
            site.zk.lose_next_write(done=done)
        assert await site.store.write_isr(TP, grown, ZkVersion(0)) == 1
        assert await site.store.read_partition_state(TP) == grown.at_version(ZkVersion(1))
        # A repeated write of the present value counts as written; any other is stale.
        assert await site.store.write_isr(TP, grown, ZkVersion(0)) == 1
        with pytest.raises(BadVersionError):
            await site.store.write_isr(TP, STATE, ZkVersion(0))
        with pytest.raises(NoNodeError):
            await site.store.write_isr(TopicPartition("none", 0), STATE, ZkVersion(0))

    run(main)


def test_notifications() -> None:
    async def main(site: Site) -> None:
        site.zk.lose_next_write(done=False)
        await site.store.propagate_isr_changes([TP])
        await site.store.propagate_log_dir_event(ONE)
        assert await site.zk.children(IsrChangeZnode.PARENT) == ["isr_change_0000000000"]
        [event] = await site.zk.children(LogDirEventZnode.PARENT)
        assert LogDirEventZnode.decode((await site.zk.get(LogDirEventZnode.path(event)))[0]) == ONE

    run(main)


@pytest.mark.parametrize("done", [None, True, False])
@pytest.mark.parametrize("config_exists", [True, False])
def test_a_topic_is_created_with_its_configuration(done: bool | None, config_exists: bool) -> None:
    async def main(site: Site) -> None:
        assignment = TopicAssignment(TopicId(bytes(range(16))), {0: PartitionAssignment((ONE,))})
        if config_exists:
            await site.zk.create("/config/topics/t", b"")
        if done is not None:
            site.zk.lose_next_write(done=done)
        await site.store.create_topic("t", assignment, {"retention.ms": "5"})
        assert await site.other.read_topic("t") == (assignment, 0)
        assert (await site.other.read_config("topics", "t"))[0] == {"retention.ms": "5"}
        with pytest.raises(NodeExistsError):
            await site.other.create_topic("t", assignment, {})
        assert (await site.other.read_config("topics", "t"))[0] == {"retention.ms": "5"}

    run(main)


@pytest.mark.parametrize("done", [None, True, False])
def test_partitions_are_added_at_the_version_that_was_read(done: bool | None) -> None:
    async def main(site: Site) -> None:
        assignment = TopicAssignment(None, {0: PartitionAssignment((ONE,))})
        await site.store.create_topic("t", assignment, {})
        more = TopicAssignment(None, {0: PartitionAssignment((ONE,)), 1: PartitionAssignment((TWO,))})
        if done is not None:
            site.zk.lose_next_write(done=done)
        assert await site.store.set_topic_assignment("t", more, ZkVersion(0)) == 1
        with pytest.raises(BadVersionError):
            await site.store.set_topic_assignment("t", assignment, ZkVersion(0))

    run(main)


def test_marking_a_topic_twice_is_marking_it_once() -> None:
    async def main(site: Site) -> None:
        await site.store.mark_topic_for_deletion("t")
        await site.other.mark_topic_for_deletion("t")
        assert await site.store.read_topic_deletions() == ["t"]

    run(main)


def test_configurations_change_by_compare_and_set_and_are_announced() -> None:
    async def main(site: Site) -> None:
        notified: list[str] = []
        changes = ConfigChanges(site.other_zk, lambda: WallMs(int(trio.current_time() * 1000)))
        await site.store.change_config("topics", "old", lambda _: {"a": "0"})
        await changes.mark_read()

        async def note(entity_path: str) -> None:
            notified.append(entity_path)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.follow, note)
            site.zk.lose_next_write(done=True)
            await site.store.change_config("topics", "t", lambda config: config | {"a": "1"})
            await site.store.change_config("topics", "t", lambda config: config | {"b": "2"})
            await trio.testing.wait_all_tasks_blocked()
            assert notified == ["topics/t", "topics/t"]
            # Nothing is lost across a disconnection.
            site.other_zk.disconnect()
            await site.store.change_config("users", "u/clients/c", lambda _: {"rate": "1"})
            await site.zk.create(ConfigChangeZnode.PREFIX, b"nonsense", sequence=True)
            site.other_zk.reconnect()
            await trio.testing.wait_all_tasks_blocked()
            assert notified[2:] == ["users/u/clients/c"]
            # After a quarter of an hour any reader deletes what is old.
            await trio.sleep(EXPIRY_MS / 1000 + 1)
            await site.store.change_config("topics", "t", lambda _: {})
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert notified[3:] == ["topics/t"]
        assert len(await site.zk.children(ConfigChangeZnode.PARENT)) == 1
        assert await site.store.read_configs("topics", ["t", "old", "none"]) == {
            "t": {},
            "old": {"a": "0"},
            "none": {},
        }
        assert (await site.store.read_config("users", "u/clients/c"))[0] == {"rate": "1"}
        assert await site.store.read_config_names("topics") == ["old", "t"]

    run(main)


def test_old_consumers_offsets() -> None:
    async def main(site: Site) -> None:
        assert await site.store.read_consumer_offset("g", TP) is None
        await site.store.write_consumer_offset("g", TP, Offset(5))
        site.zk.lose_next_write(done=True)
        await site.store.write_consumer_offset("g", TP, Offset(6))
        assert await site.other.read_consumer_offset("g", TP) == 6

    run(main)


def test_a_migration_is_noticed() -> None:
    async def main(site: Site) -> None:
        assert not await site.store.migration_was_begun()
        await site.zk.create("/migration")
        assert await site.store.migration_was_begun()

    run(main)


def test_many_isr_changes_are_several_notifications() -> None:
    async def main() -> None:
        ensemble = FakeEnsemble()
        zookeeper = FakeZooKeeper(ensemble)
        zookeeper.connect()
        await zookeeper.renew_session()
        store = BrokerStore(zookeeper)
        await store.create_persistent_paths()
        partitions = {TopicPartition("t" * 249, number) for number in range(10_000)}
        await store.propagate_isr_changes(partitions)
        names = await zookeeper.children(IsrChangeZnode.PARENT)
        read = [IsrChangeZnode.decode((await zookeeper.get(IsrChangeZnode.path(name)))[0]) for name in names]
        assert frozenset().union(*read) == partitions

    trio.run(main)


def test_partition_states_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_STATES_PER_TURN", 2)

    async def main() -> None:
        zookeeper = FakeZooKeeper(FakeEnsemble())
        zookeeper.connect()
        await zookeeper.renew_session()
        store = BrokerStore(zookeeper)
        await store.create_persistent_paths()
        partitions = [TopicPartition("t", number) for number in range(5)]
        for partition in partitions[1:]:
            leadership = PartitionLeadership(
                BrokerId(partition.partition), LeaderEpoch(0), (), ControllerEpoch(1), ZkVersion(0)
            )
            await zookeeper.create(
                PartitionStateZnode.path(partition), PartitionStateZnode.encode(leadership), make_parents=True
            )
        states = await store.read_partition_states(partitions)
        assert {tp.partition: state.leader for tp, state in states.items()} == {1: 1, 2: 2, 3: 3, 4: 4}
        assert await store.read_partition_states([]) == {}

    trio.run(main)
