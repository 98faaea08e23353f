"""Election, the fence, and the controller's writes, with answers lost on purpose."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.client import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.fence import ControllerMovedError
from cluster.zookeeper.partition_writes import STATES_PER_TRANSACTION
from cluster.zookeeper.znodes import (
    ConfigEntityZnode,
    DeleteTopicsZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    PartitionStateZnode,
    TopicAssignment,
    TopicZnode,
)
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from wire.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, WallMs, ZkVersion

ONE, TWO = BrokerId(1), BrokerId(2)
NOW = WallMs(1000)


class Site:
    """An ensemble with two brokers' sessions and stores."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble()
        self.zk = FakeZooKeeper(self.ensemble)
        self.other_zk = FakeZooKeeper(self.ensemble)
        self.zk.connect()
        self.other_zk.connect()
        self.store = ControllerStore(self.zk, ONE)
        self.other = ControllerStore(self.other_zk, TWO)

    async def ensure(self, path: str) -> None:
        await self.zk.create(path, b"", make_parents=True)


def run(main: Callable[[Site], Awaitable[None]]) -> None:
    async def in_site() -> None:
        await main(Site())

    trio.run(in_site, clock=trio.testing.MockClock(autojump_threshold=0))


def state(leader: BrokerId = ONE, version: int = 0, epoch: int = 0) -> PartitionLeadership:
    return PartitionLeadership(leader, LeaderEpoch(epoch), (ONE, TWO), ControllerEpoch(1), ZkVersion(version))


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


async def create_topic(site: Site, count: int) -> None:
    await site.ensure("/brokers/topics/t")
    outcome = await site.store.create_partition_states([(tp, state()) for tp in partitions(count)])
    assert all(isinstance(written, PartitionLeadership) for written in outcome.values())


def test_one_of_two_is_elected_and_the_next_has_a_higher_epoch() -> None:
    async def main(site: Site) -> None:
        assert await site.store.elect(NOW) == 1
        assert site.store.epoch == 1
        with pytest.raises(ControllerMovedError):
            await site.other.elect(NOW)
        found = await site.other.read_controller()
        assert found is not None
        assert found[0].broker_id == ONE
        assert found[1].ephemeral_owner == site.zk.session_id
        await site.store.resign()
        assert await site.other.read_controller() is None
        assert await site.other.elect(NOW) == 2

    run(main)


@pytest.mark.parametrize("done", [True, False])
def test_an_election_whose_answer_is_lost_is_decided_by_reading(done: bool) -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await site.store.resign()
        site.zk.lose_next_write(done=done)
        assert await site.store.elect(NOW) == 2
        await site.ensure("/brokers/topics/t")
        await site.store.create_partition_states([(TopicPartition("t", 0), state())])

    run(main)


def test_the_first_election_survives_a_lost_answer_anywhere() -> None:
    async def main(site: Site) -> None:
        site.zk.lose_next_write(done=True)
        site.zk.lose_next_write(done=True)
        assert await site.store.elect(NOW) == 1

    run(main)


def test_a_former_controller_writes_nothing() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await create_topic(site, 3)
        assignment = TopicAssignment(None, {0: PartitionAssignment((ONE,))})
        await site.zk.delete("/controller", ANY_VERSION)
        assert await site.other.elect(NOW) == 2
        before = dict(site.ensemble.tree.nodes)
        with pytest.raises(ControllerMovedError):
            await site.store.write_partition_states([(TopicPartition("t", 0), state(TWO))])
        with pytest.raises(ControllerMovedError):
            await site.store.create_partition_states([(TopicPartition("t", 9), state(TWO))])
        with pytest.raises(ControllerMovedError):
            await site.store.set_topic_assignment("t", assignment, ZkVersion(0))
        with pytest.raises(ControllerMovedError):
            await site.store.delete_topic("t")
        with pytest.raises(ControllerMovedError):
            await site.store.delete_preferred_election()
        await site.store.resign()
        assert site.ensemble.tree.nodes == before
        assert await site.other.read_controller() is not None

    run(main)


def test_without_an_election_nothing_is_written() -> None:
    async def main(site: Site) -> None:
        with pytest.raises(ControllerMovedError):
            await site.store.write_partition_states([(TopicPartition("t", 0), state())])
        await site.store.elect(NOW)
        site.store.forget_election()
        with pytest.raises(ControllerMovedError):
            await site.store.ensure_features()
        await site.store.resign()
        assert await site.store.read_controller() is not None

    run(main)


def test_resigning_from_an_expired_session_is_quiet() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        site.ensemble.expire(site.zk.session_id)
        await site.store.resign()
        with pytest.raises(SessionExpiredError):
            await site.store.elect(NOW)
        assert await site.other.elect(NOW) == 2

    run(main)


def test_states_are_written_in_transactions_and_stale_ones_one_by_one() -> None:
    async def main(site: Site) -> None:
        count = STATES_PER_TRANSACTION * 2 + 50
        await site.store.elect(NOW)
        await create_topic(site, count)
        stale = TopicPartition("t", STATES_PER_TRANSACTION + 7)
        await site.zk.set(
            PartitionStateZnode.path(stale), PartitionStateZnode.encode(state(TWO)), ZkVersion(0)
        )
        gone = TopicPartition("t", 3)
        await site.zk.delete(PartitionStateZnode.path(gone), ANY_VERSION)
        zxid = site.ensemble.tree.zxid
        outcome = await site.store.write_partition_states([(tp, state(TWO)) for tp in partitions(count)])
        assert isinstance(outcome.pop(stale), BadVersionError)
        assert isinstance(outcome.pop(gone), NoNodeError)
        assert set(outcome.values()) == {state(TWO, version=1)}
        assert len(outcome) == count - 2
        # Three transactions, of which two failed and were repeated state by state.
        assert site.ensemble.tree.zxid - zxid == 3 + 2 * STATES_PER_TRANSACTION
        read = await site.store.read_partition_states(partitions(count))
        assert read[stale].zk_version == 1
        assert len(read) == count - 1

    run(main)


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_a_state_write_is_settled_by_reading(done: bool) -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await create_topic(site, 3)
        site.zk.lose_next_write(done=done)
        outcome = await site.store.write_partition_states([(tp, state(TWO)) for tp in partitions(3)])
        assert outcome == {tp: state(TWO, version=1) for tp in partitions(3)}

    run(main)


def test_a_lost_answer_to_a_state_write_that_somebody_overtook_is_a_stale_version() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await create_topic(site, 1)
        [tp] = partitions(1)
        await site.zk.set(PartitionStateZnode.path(tp), PartitionStateZnode.encode(state(TWO)), ZkVersion(0))
        site.zk.lose_next_write(done=False)
        outcome = await site.store.write_partition_states([(tp, state(ONE, epoch=5))])
        assert isinstance(outcome[tp], BadVersionError)

    run(main)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("lost", [1, 2])
def test_creating_states_survives_a_lost_answer(done: bool, lost: int) -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await site.ensure("/brokers/topics/t")
        for _ in range(lost):
            site.zk.lose_next_write(done=done)
        outcome = await site.store.create_partition_states([(tp, state()) for tp in partitions(3)])
        assert outcome == {tp: state() for tp in partitions(3)}

    run(main)


def test_creating_states_that_exist_in_part() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await create_topic(site, 2)
        await site.ensure("/brokers/topics/t/partitions/2")
        outcome = await site.store.create_partition_states(
            [(tp, state(TWO)) for tp in [*partitions(4), TopicPartition("gone", 0)]]
        )
        kinds = [type(written) for written in outcome.values()]
        assert sorted(kind.__name__ for kind in kinds) == [
            "NoNodeError",
            "NodeExistsError",
            "NodeExistsError",
            "PartitionLeadership",
            "PartitionLeadership",
        ]
        assert isinstance(outcome[TopicPartition("t", 0)], NodeExistsError)
        assert isinstance(outcome[TopicPartition("gone", 0)], NoNodeError)

    run(main)


@pytest.mark.parametrize("done", [None, True, False])
def test_assignments_are_conditional(done: bool | None) -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await site.ensure(TopicZnode.path("t"))
        moving = TopicAssignment(None, {0: PartitionAssignment((ONE, TWO), adding=(TWO,))})
        if done is not None:
            site.zk.lose_next_write(done=done)
        assert await site.store.set_topic_assignment("t", moving, ZkVersion(0)) == 1
        assert await site.store.read_assignments(["t", "none"]) == {"t": (moving, 1)}
        assert await site.store.read_topic("t") == (moving, 1)
        with pytest.raises(BadVersionError):
            await site.store.set_topic_assignment("t", moving, ZkVersion(0))
        with pytest.raises(NoNodeError):
            await site.store.set_topic_assignment("none", moving, ZkVersion(0))

    run(main)


@pytest.mark.parametrize("lost", range(5))
@pytest.mark.parametrize("done", [True, False])
def test_a_topic_is_deleted_with_all_that_is_its(lost: int, done: bool) -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        count = STATES_PER_TRANSACTION + 5
        await create_topic(site, count)
        await site.ensure(ConfigEntityZnode.path("topics", "t"))
        await site.ensure(DeleteTopicsZnode.path("t"))
        assert await site.store.read_topic_deletions() == ["t"]
        for _ in range(lost):
            site.zk.lose_next_write(done=done)
        await site.store.delete_topic("t")
        assert await site.store.read_topics() == []
        assert await site.store.read_topic_deletions() == []
        assert await site.store.read_config_names("topics") == []
        await site.store.delete_topic("t")

    run(main)


def test_notifications_are_read_and_deleted() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        assert await site.store.read_isr_changes() == ([], frozenset())
        for parent in (IsrChangeZnode.PARENT, LogDirEventZnode.PARENT):
            await site.ensure(parent)
        tp = TopicPartition("t", 1)
        await site.zk.create(IsrChangeZnode.PREFIX, IsrChangeZnode.encode([tp]), sequence=True)
        await site.zk.create(IsrChangeZnode.PREFIX, b"nonsense", sequence=True)
        await site.zk.create(LogDirEventZnode.PREFIX, LogDirEventZnode.encode(TWO), sequence=True)
        names, changed = await site.store.read_isr_changes()
        assert changed == {tp}
        assert len(names) == 2
        site.zk.lose_next_write(done=True)
        await site.store.delete_isr_changes(names)
        await site.store.delete_isr_changes(names)
        assert await site.store.read_isr_changes() == ([], frozenset())
        events, brokers = await site.store.read_log_dir_events()
        assert brokers == {TWO}
        await site.store.delete_log_dir_events(events)
        assert await site.store.read_log_dir_events() == ([], frozenset())

    run(main)


def test_requests_of_old_tools() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await site.ensure("/admin")
        assert await site.store.read_reassignment() is None
        assert await site.store.read_preferred_election() is None
        moves = {TopicPartition("t", 0): (ONE, TWO)}
        await site.store.write_reassignment(moves)
        assert await site.store.read_reassignment() == moves
        await site.store.write_reassignment(moves | {TopicPartition("t", 1): (ONE,)})
        await site.store.write_reassignment({})
        await site.store.write_reassignment({})
        assert await site.store.read_reassignment() is None
        await site.zk.create("/admin/reassign_partitions", b"nonsense")
        assert await site.store.read_reassignment() == {}
        await site.zk.create("/admin/preferred_replica_election", b"nonsense")
        assert await site.store.read_preferred_election() == frozenset()
        await site.store.delete_preferred_election()
        await site.store.delete_preferred_election()
        assert await site.store.read_preferred_election() is None

    run(main)


def test_features_are_created_once() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        assert await site.store.read_features() is None
        await site.store.ensure_features()
        await site.store.ensure_features()
        assert await site.store.read_features() == {}

    run(main)


def test_watches_say_look_again() -> None:
    async def main(site: Site) -> None:
        await site.store.elect(NOW)
        await site.ensure("/brokers/topics")
        await site.ensure("/brokers/ids")
        seen: list[str] = []
        await site.store.read_controller(lambda _: seen.append("controller"))
        await site.store.read_topics(lambda _: seen.append("topics"))
        await site.store.read_brokers(lambda _: seen.append("brokers"))
        await site.store.read_reassignment(lambda _: seen.append("moves"))
        await site.ensure("/brokers/topics/t")
        await site.ensure("/brokers/ids/1")
        await site.store.read_assignments(["t"], lambda _: seen.append("t"))
        await site.other_zk.set("/brokers/topics/t", b"{}", ANY_VERSION)
        await site.ensure("/admin/reassign_partitions")
        await site.store.resign()
        assert seen == ["topics", "brokers", "t", "moves", "controller"]

    run(main)
