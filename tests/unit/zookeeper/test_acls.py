"""Rules in ZooKeeper: written by compare-and-set, followed by notifications, never trusted for a write."""

import json
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cluster.security.acl import (
    AclBinding,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from cluster.security.acl_table import AclTable
from cluster.zookeeper.acl_store import AclContentionError, AclStore, is_storable_name
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.client import ANY_VERSION, NoNodeError, Stat
from cluster.zookeeper.stored_acls import StoredAcls
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from wire.types import WallMs, ZkVersion

TOPIC = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIX = ResourcePattern(ResourceType.GROUP, "app-", PatternType.PREFIXED)
READ = AclRule("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = AclRule("User:alice", "*", Operation.WRITE, Permission.DENY)


class Site:
    """Two brokers with one ensemble."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble(wall_ms=lambda: int(trio.current_time() * 1000))
        self.zk, self.table, self.acls = self._broker()
        self.other_zk, self.other_table, self.other = self._broker()

    def _broker(self) -> tuple[FakeZooKeeper, AclTable, StoredAcls]:
        zk = FakeZooKeeper(self.ensemble, 6.0)
        zk.connect()
        table = AclTable()
        store = AclStore(zk, lambda: WallMs(int(trio.current_time() * 1000)), lambda: 0.5)
        return zk, table, StoredAcls(table, store)

    async def wait_rules(self, table: AclTable, pattern: ResourcePattern, rules: set[AclRule]) -> None:
        while table.rules_of(pattern) != rules:
            await trio.testing.wait_all_tasks_blocked()


def run(main: Callable[[Site], Awaitable[None]]) -> None:
    async def in_site() -> None:
        site = Site()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.ensemble.run)
            await BrokerStore(site.zk).create_persistent_paths()
            await site.acls.load()
            await site.other.load()
            nursery.start_soon(lambda: site.other.follow(reload=False))
            await main(site)
            nursery.cancel_scope.cancel()

    trio.run(in_site, clock=trio.testing.MockClock(autojump_threshold=0))


def test_rules_stand_where_kafka_has_them_and_reach_the_other_broker() -> None:
    async def main(site: Site) -> None:
        assert await site.acls.create(
            [AclBinding(TOPIC, READ), AclBinding(TOPIC, WRITE), AclBinding(PREFIX, READ)]
        ) == [None, None, None]
        assert site.table.rules_of(TOPIC) == {READ, WRITE}, "the broker that answers decides by them at once"
        node = json.loads((await site.zk.get("/kafka-acl/Topic/t"))[0])
        assert node["version"] == 1
        assert {
            "principal": "User:alice",
            "permissionType": "Deny",
            "operation": "Write",
            "host": "*",
        } in node["acls"]
        assert (await site.zk.get("/kafka-acl-extended/prefixed/Group/app-"))[0]
        (change,) = await site.zk.children("/kafka-acl-changes")
        assert (await site.zk.get(f"/kafka-acl-changes/{change}"))[0] == b"TOPIC:t"
        await site.wait_rules(site.other_table, TOPIC, {READ, WRITE})
        await site.wait_rules(site.other_table, PREFIX, {READ})

    run(main)


def test_deleting_the_last_rule_deletes_the_node() -> None:
    async def main(site: Site) -> None:
        await site.acls.create([AclBinding(TOPIC, READ), AclBinding(TOPIC, WRITE)])
        (deleted,) = await site.acls.delete([AclFilter(permission=Permission.DENY)])
        assert deleted == {AclBinding(TOPIC, WRITE): None}
        first, second = await site.acls.delete([AclFilter(name="t"), AclFilter()])
        assert (dict(first), dict(second)) == ({AclBinding(TOPIC, READ): None}, {}), "the first filter has it"
        with pytest.raises(NoNodeError):
            await site.zk.get("/kafka-acl/Topic/t")
        await site.wait_rules(site.other_table, TOPIC, set())

    run(main)


def test_a_filter_that_names_a_resource_looks_in_zookeeper() -> None:
    async def main(site: Site) -> None:
        await site.other.create([AclBinding(TOPIC, READ)])
        assert site.table.rules_of(TOPIC) == frozenset(), "this broker does not follow"
        (deleted,) = await site.acls.delete([AclFilter(ResourceType.TOPIC, "t", PatternType.LITERAL)])
        assert deleted == {AclBinding(TOPIC, READ): None}

    run(main)


def test_writers_of_one_resource_lose_nothing() -> None:
    async def main(site: Site) -> None:
        rules = [AclRule(f"User:{number}", "*", Operation.READ, Permission.ALLOW) for number in range(8)]
        async with trio.open_nursery() as nursery:
            for number, rule in enumerate(rules):
                acls = site.acls if number % 2 else site.other
                nursery.start_soon(acls.create, [AclBinding(TOPIC, rule)])
        await site.wait_rules(site.other_table, TOPIC, set(rules))

    run(main)


def test_an_answer_that_is_lost_is_announced_all_the_same() -> None:
    async def main(site: Site) -> None:
        site.zk.lose_next_write(done=True)
        assert await site.acls.create([AclBinding(TOPIC, READ)]) == [None]
        await site.wait_rules(site.other_table, TOPIC, {READ})

    run(main)


def test_nothing_is_announced_where_nothing_changes() -> None:
    async def main(site: Site) -> None:
        await site.acls.create([AclBinding(TOPIC, READ)])
        await site.acls.create([AclBinding(TOPIC, READ)])
        assert len(await site.zk.children("/kafka-acl-changes")) == 1

    run(main)


def test_entries_of_a_later_version_match_nothing_and_are_kept() -> None:
    async def main(site: Site) -> None:
        strange = {"principal": "User:x", "permissionType": "Allow", "operation": "Fly", "host": "*"}
        await site.zk.create(
            "/kafka-acl/Topic/t", json.dumps({"version": 1, "acls": [strange]}).encode(), make_parents=True
        )
        await site.acls.load()
        assert site.table.rules_of(TOPIC) == frozenset()
        await site.acls.create([AclBinding(TOPIC, READ)])
        node = json.loads((await site.zk.get("/kafka-acl/Topic/t"))[0])
        assert strange in node["acls"]
        assert len(node["acls"]) == 2

    run(main)


def test_a_node_that_does_not_parse_is_left_out_and_not_overwritten() -> None:
    async def main(site: Site) -> None:
        await site.zk.create("/kafka-acl/Topic/t", b"nonsense", make_parents=True)
        await site.acls.create([AclBinding(PREFIX, READ)])
        await site.acls.load()
        assert site.table.rules_of(PREFIX) == {READ}
        (failure,) = await site.acls.create([AclBinding(TOPIC, READ)])
        assert failure is not None
        assert (await site.zk.get("/kafka-acl/Topic/t"))[0] == b"nonsense"

    run(main)


def test_a_rule_written_by_a_tool_is_in_force_after_its_notification() -> None:
    async def main(site: Site) -> None:
        rule = {"principal": "User:alice", "permissionType": "ALLOW", "operation": "read", "host": "*"}
        await site.zk.create(
            "/kafka-acl/Topic/t", json.dumps({"version": 1, "acls": [rule]}).encode(), make_parents=True
        )
        await site.zk.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        await site.wait_rules(site.other_table, TOPIC, {READ})

    run(main)


class Outpaced(FakeZooKeeper):
    """A session that loses every write of rules to another session, which writes first."""

    rival: FakeZooKeeper

    async def set(self, path: str, data: bytes, expected_version: ZkVersion) -> Stat:
        await self.rival.set(path, data.replace(b"alice", b"bob"), ANY_VERSION)
        return await super().set(path, data, expected_version)


def test_a_writer_that_is_always_late_gives_up() -> None:
    async def main(site: Site) -> None:
        await site.acls.create([AclBinding(TOPIC, WRITE)])
        zk = Outpaced(site.ensemble, 6.0)
        zk.connect()
        zk.rival = site.other_zk
        store = AclStore(zk, lambda: WallMs(0), lambda: 0.0)
        with pytest.raises(AclContentionError):
            await store.change(TOPIC, lambda present: present | {READ})

    run(main)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00", "a\u0085", "\ue000", "\uffff", "\U0001f600"])
def test_names_that_zookeeper_refuses(name: str) -> None:
    assert not is_storable_name(name)
    assert is_storable_name("a name with blanks and ü")
