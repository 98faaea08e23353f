"""The stores on a real ensemble: what the fake cannot vouch for."""

import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from cluster.statemachines.leadership import PartitionLeadership
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.client import BadVersionError
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.fence import ControllerMovedError
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerRegistration,
    PartitionStateZnode,
    RegisteredEndpoint,
    TopicAssignment,
)
from tests.contract.conftest import RealZooKeeper
from wire.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MonotonicSeconds,
    TopicPartition,
    WallMs,
    ZkVersion,
)

ONE, TWO = BrokerId(1), BrokerId(2)


def monotonic() -> MonotonicSeconds:
    return MonotonicSeconds(time.monotonic())


def in_sessions(
    server: RealZooKeeper, chroot: str, main: Callable[[KazooZooKeeper, KazooZooKeeper], Awaitable[None]]
) -> None:
    async def run() -> None:
        one = KazooZooKeeper(server.hosts + chroot, 10.0, monotonic)
        two = KazooZooKeeper(server.hosts + chroot, 10.0, monotonic)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(one.run)
                await nursery.start(two.run)
                await main(one, two)
                nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_broker_and_a_controller(real_zookeeper: RealZooKeeper) -> None:
    async def main(one: KazooZooKeeper, two: KazooZooKeeper) -> None:
        broker = BrokerStore(one)
        await broker.create_persistent_paths()
        await broker.create_persistent_paths()
        assert [path for path in PERSISTENT_PATHS if await two.exists(path) is None] == []
        assert await broker.cluster_id("c") == "c"
        assert await broker.generate_broker_id() == 1
        assert await broker.generate_broker_id() == 2
        registration = BrokerRegistration(ONE, (RegisteredEndpoint("PLAINTEXT", "h", 1, "PLAINTEXT"),))
        epoch = await broker.register(registration)
        found = await one.exists("/brokers/ids/1")
        assert found is not None
        assert (found.czxid, found.ephemeral_owner) == (epoch, one.session_id)
        assert (await broker.next_producer_id_block(ONE)).first == 0
        assert (await broker.next_producer_id_block(ONE)).first == 1000
        await broker.change_config("users", "u/clients/c", lambda _: {"a": "1"})
        assert (await broker.read_config("users", "u/clients/c"))[0] == {"a": "1"}

        controller, rival = ControllerStore(one, ONE), ControllerStore(two, TWO)
        assert await controller.elect(WallMs(1)) == 1
        with pytest.raises(ControllerMovedError):
            await rival.elect(WallMs(1))
        await controller.resign()
        assert await rival.elect(WallMs(1)) == 2
        with pytest.raises(ControllerMovedError):
            await controller.ensure_features()
        await rival.ensure_features()
        assert await broker.read_features() == {}

    in_sessions(real_zookeeper, "/nested/cluster", main)


def test_thousands_of_partition_states(real_zookeeper: RealZooKeeper) -> None:
    count = 3000
    partitions = [TopicPartition("t", number) for number in range(count)]

    async def main(one: KazooZooKeeper, two: KazooZooKeeper) -> None:
        broker, controller = BrokerStore(two), ControllerStore(one, ONE)
        await broker.create_persistent_paths()
        await controller.elect(WallMs(1))
        await broker.create_topic("t", TopicAssignment(None, {}), {})
        first = PartitionLeadership(ONE, LeaderEpoch(0), (ONE, TWO), ControllerEpoch(1), ZkVersion(0))
        created = await controller.create_partition_states([(tp, first) for tp in partitions])
        assert created == dict.fromkeys(partitions, first)
        stale = partitions[1234]
        shrunk = first.with_isr((ONE,))
        assert await broker.write_isr(stale, shrunk, ZkVersion(0)) == 1
        second = first.decided(TWO, (TWO,), ControllerEpoch(1))
        written = await controller.write_partition_states([(tp, second) for tp in partitions])
        assert isinstance(written.pop(stale), BadVersionError)
        assert set(written.values()) == {second.at_version(ZkVersion(1))}
        read = await controller.read_partition_states(partitions)
        assert read.pop(stale) == shrunk.at_version(ZkVersion(1))
        assert read == written
        await controller.delete_topic("t")
        assert await two.exists(PartitionStateZnode.path(stale)) is None
        assert await controller.read_topics() == []

    in_sessions(real_zookeeper, "/thousands", main)
