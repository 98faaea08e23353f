"""Altering and describing quotas against a ZooKeeper in memory, and applying them."""

from dataclasses import dataclass

import pytest
import trio
import trio.testing

from cluster.broker.live_configuration import LiveConfiguration
from cluster.broker.live_quotas import LiveQuotas, client_quotas
from cluster.configuration.broker_config import BrokerConfig
from cluster.handlers import alter_client_quotas, describe_client_quotas
from cluster.network.connection_limits import ConnectionLimits
from cluster.network.connection_quotas import ConnectionQuotas
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.config_changes import ConfigChanges
from simulation.zookeeper import FakeZooKeeper
from simulation.zookeeper_ensemble import FakeEnsemble
from tests.unit.handlers.calls import Broker, KeptCall
from timing.timing_wheel import Timer
from wire.errors import Error
from wire.messages import alter_client_quotas as alter
from wire.messages import describe_client_quotas as describe
from wire.types import WallMs

NAN, INFINITY = float("nan"), float("inf")


async def at_once(work):
    await trio.lowlevel.checkpoint()
    return work()


def look_up(host):
    if host == "known.example":
        return ["10.0.0.9"]
    raise OSError(-2, "Name or service not known")


@dataclass(eq=False)
class Altering(Broker):
    store: BrokerStore
    connection_limits: ConnectionLimits


class Site:
    def __init__(self):
        self.zookeeper = FakeZooKeeper(FakeEnsemble())
        self.zookeeper.connect()
        self.store = BrokerStore(self.zookeeper)
        config = BrokerConfig({"zookeeper.connect": "x", "broker.id": "1"})
        limits = ConnectionLimits(config, at_once, look_up)
        self.broker = Altering(self.store, limits)
        self.context = Broker()
        self.connections = ConnectionQuotas(("A",))
        self.live = LiveConfiguration(config, self.store, ConfigChanges(self.zookeeper, lambda: WallMs(0)))
        self.quotas = LiveQuotas(client_quotas(config), limits)
        self.quotas.follow(self.live)

    async def alter(self, *entries, validate_only=False):
        request = alter.AlterClientQuotasRequest(
            entries=[
                alter.EntryData(
                    entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                    ops=[
                        alter.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes
                    ],
                )
                for parts, changes in entries
            ],
            validate_only=validate_only,
        )
        response = await alter_client_quotas.handle(KeptCall(self.broker, request, 1))
        return [Error.from_code(each.error_code) for each in response.entries]

    async def describe(self, *components, strict=False):
        request = describe.DescribeClientQuotasRequest(
            components=[
                describe.ComponentData(entity_type=kind, match_type=match, match=name)
                for kind, match, name in components
            ],
            strict=strict,
        )
        response = await describe_client_quotas.handle(KeptCall(self.broker, request, 1))
        if response.error_code:
            return Error.from_code(response.error_code)
        return {
            tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries
        }


def in_site(test):
    async def main():
        site = Site()
        await site.zookeeper.renew_session()
        await site.store.create_persistent_paths()
        async with trio.open_nursery() as nursery:
            site.quotas.attach(site.context, site.connections, None, Timer(), nursery)
            await site.live.load()
            nursery.start_soon(site.live.follow)
            await test(site)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


RATE = "producer_byte_rate"
ALICE = (("user", "alice"),)


def test_quotas_are_stored_as_kafka_has_them_and_take_effect():
    @in_site
    async def _(site):
        await site.store.change_config("users", "alice", lambda _: {"SCRAM-SHA-256": "secret"})
        assert (
            await site.alter(
                (ALICE, [(RATE, 1048576.0), ("request_percentage", 50.0)]),
                ((("user", "alice"), ("client-id", "a/b")), [(RATE, 7.0)]),
                ((("user", None),), [(RATE, 9.0)]),
            )
            == [Error.NONE] * 3
        )
        config, _ = await site.store.read_config("users", "alice")
        assert config == {"SCRAM-SHA-256": "secret", RATE: "1048576", "request_percentage": "50.0"}
        assert (await site.store.read_config("users", "alice/clients/a%2Fb"))[0] == {RATE: "7"}
        assert (await site.store.read_config("users", "<default>"))[0] == {RATE: "9"}
        await trio.testing.wait_all_tasks_blocked()
        produce = site.quotas.quotas.produce
        assert produce.grant_of("alice", "x").limit == 1048576
        assert produce.grant_of("alice", "a/b").limit == 7
        assert produce.grant_of("bob", "x").limit == 9
        assert site.context.throttling is not None


def test_a_node_goes_with_its_last_quota_and_credentials_stay():
    @in_site
    async def _(site):
        both = (("user", "alice"), ("client-id", "app"))
        await site.alter((both, [(RATE, 7.0)]))
        assert await site.alter((both, [(RATE, None)])) == [Error.NONE]
        assert await site.store.read_config_names("users") == []
        await site.store.change_config("users", "alice", lambda _: {"SCRAM-SHA-256": "secret"})
        await site.alter((ALICE, [(RATE, 7.0)]))
        await site.alter((ALICE, [(RATE, None)]))
        assert (await site.store.read_config("users", "alice"))[0] == {"SCRAM-SHA-256": "secret"}
        await trio.testing.wait_all_tasks_blocked()
        assert site.context.throttling is None, "without a quota requests pay nothing"


@pytest.mark.parametrize(
    ("parts", "changes"),
    [
        ((), [(RATE, 1.0)]),
        ((("user", ""),), [(RATE, 1.0)]),
        ((("group", "g"),), [(RATE, 1.0)]),
        ((("user", "a"), ("user", "b")), [(RATE, 1.0)]),
        ((("ip", "10.0.0.1"), ("user", "a")), [("connection_creation_rate", 1.0)]),
        ((("ip", "10.0.0.1"),), [(RATE, 1.0)]),
        ((("ip", "999.1.1.1"),), [("connection_creation_rate", 1.0)]),
        (ALICE, [("connection_creation_rate", 1.0)]),
        (ALICE, [(RATE, 1.5)]),
        (ALICE, [(RATE, 0.0)]),
        (ALICE, [(RATE, 1e-300)]),
        (ALICE, [(RATE, 1e308)]),
        ((("ip", "10.0.0.1"),), [("connection_creation_rate", 2.0**31)]),
        (ALICE, [("request_percentage", -1.0)]),
        (ALICE, [("request_percentage", NAN)]),
        (ALICE, [("request_percentage", INFINITY)]),
        (ALICE, [(RATE, 1.0), (RATE, 2.0)]),
    ],
)
def test_what_cannot_be_is_refused_and_others_go_on(parts, changes):
    @in_site
    async def _(site):
        entries = (parts, changes), ((("client-id", "c"),), [(RATE, 3.0)])
        assert await site.alter(*entries) == [Error.INVALID_REQUEST, Error.NONE]
        assert await site.describe() == {(("client-id", "c"),): {RATE: 3.0}}


def test_validating_writes_nothing():
    @in_site
    async def _(site):
        assert await site.alter((ALICE, [(RATE, 1.0)]), validate_only=True) == [Error.NONE]
        assert await site.describe() == {}


def test_filters():
    @in_site
    async def _(site):
        both, everybody = (("user", "alice"), ("client-id", "app")), (("user", None),)
        client, ip = (("client-id", "app"),), (("ip", "10.0.0.1"),)
        for number, parts in enumerate((ALICE, both, everybody, client), 1):
            await site.alter((parts, [(RATE, float(number))]))
        await site.alter((ip, [("connection_creation_rate", 5.0)]))
        found = {parts: {RATE: float(n)} for n, parts in enumerate((ALICE, both, everybody, client), 1)}
        found[ip] = {"connection_creation_rate": 5.0}

        async def check(*components, strict=False, expected):
            answer = await site.describe(*components, strict=strict)
            assert answer == {parts: found[parts] for parts in expected}

        await check(expected=found)
        await check(strict=True, expected=())
        await check(("user", 0, "alice"), expected=(ALICE, both))
        await check(("user", 0, "alice"), strict=True, expected=(ALICE,))
        await check(("user", 1, None), expected=(everybody,))
        await check(("user", 2, None), expected=(ALICE, both, everybody))
        await check(("user", 2, None), ("client-id", 2, None), expected=(both,))
        await check(("client-id", 0, "app"), strict=True, expected=(client,))
        await check(("ip", 2, None), expected=(ip,))
        assert await site.describe(("user", 0, "a"), ("user", 0, "b")) is Error.INVALID_REQUEST
        assert await site.describe(("ip", 2, None), ("user", 2, None)) is Error.INVALID_REQUEST
        assert await site.describe(("", 2, None)) is Error.INVALID_REQUEST
        assert await site.describe(("planet", 2, None)) is Error.UNSUPPORTED_VERSION


def test_connections_of_an_address_come_no_faster_than_its_quota():
    @in_site
    async def _(site):
        await site.alter(
            ((("ip", "known.example"),), [("connection_creation_rate", 1.0)]),
            ((("ip", None),), [("connection_creation_rate", 2.0)]),
        )
        await trio.testing.wait_all_tasks_blocked()
        quotas = site.connections
        served = [quotas.address_throttle_s("10.0.0.9", 5.0) for _ in range(30)]
        assert served.count(0.0) == 10, "what fits into the windows at once"
        assert max(served) <= 1.0
        assert [quotas.address_throttle_s("10.0.0.7", 5.0) for _ in range(30)].count(0.0) == 20
        assert quotas.listener_rates["A"].limit > 100
