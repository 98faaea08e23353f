"""Quotas that follow the configuration, and hosts that are looked up outside the loop."""

from collections.abc import Callable, Mapping

import pytest
import trio
import trio.testing

from cluster.configuration.broker_config import BrokerConfig
from cluster.configuration.errors import ConfigError
from cluster.network.connection_limits import ConnectionLimits
from cluster.network.connection_quotas import ConnectionQuotas

BASE = {"zookeeper.connect": "x", "broker.id": "1"}


async def at_once(work: Callable[[], Mapping[str, int]]) -> Mapping[str, int]:
    await trio.lowlevel.checkpoint()
    return work()


def look_up(host: str) -> list[str]:
    if host != "known.example":
        raise OSError(-2, "Name or service not known")
    return ["10.0.0.1"]


async def quotas_of(config: BrokerConfig, nursery: trio.Nursery) -> ConnectionQuotas:
    limits = ConnectionLimits(config, at_once, look_up)
    await limits.resolve()
    return limits.quotas(("PLAINTEXT", "INNER"), "INNER", None, nursery)


def in_nursery(test: Callable[[trio.Nursery], object]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(nursery)  # type: ignore[misc]

    trio.run(main)


def test_a_listener_has_its_own_limits_or_the_brokers() -> None:
    @in_nursery
    async def _(nursery: trio.Nursery) -> None:
        own = {
            "max.connections": "100",
            "max.connection.creation.rate": "50",
            "listener.name.inner.max.connections": "7",
            "listener.name.plaintext.max.connection.creation.rate": "9",
        }
        quotas = await quotas_of(BrokerConfig(BASE | own), nursery)
        assert quotas.connections_max == 100
        assert quotas.per_listener_max == {"PLAINTEXT": 100, "INNER": 7}
        assert quotas.creation_rate.limit == 50
        assert {name: rate.limit for name, rate in quotas.listener_rates.items()} == {
            "PLAINTEXT": 9,
            "INNER": 50,
        }


def test_limits_change_while_the_broker_runs() -> None:
    @in_nursery
    async def _(nursery: trio.Nursery) -> None:
        config = BrokerConfig(BASE)
        quotas = await quotas_of(config, nursery)
        woken: list[str] = []
        quotas.call_when_slot(lambda: woken.append("looked"))
        config.apply_dynamic({"listener.name.inner.max.connections": "3"}, {"max.connections.per.ip": "5"})
        assert (quotas.per_listener_max["INNER"], quotas.per_address_max) == (3, 5)
        assert woken == ["looked"]
        config.apply_dynamic({}, {"listener.name.inner.max.connection.creation.rate": "4"})
        assert quotas.per_listener_max["INNER"] == 2**31 - 1
        assert quotas.listener_rates["INNER"].limit == 4


def test_hosts_are_looked_up_again_when_the_setting_changes(caplog: pytest.LogCaptureFixture) -> None:
    @in_nursery
    async def _(nursery: trio.Nursery) -> None:
        config = BrokerConfig(BASE | {"max.connections.per.ip.overrides": "known.example:4"})
        quotas = await quotas_of(config, nursery)
        assert quotas.per_address_overrides == {"10.0.0.1": 4}
        config.apply_dynamic({}, {"max.connections.per.ip.overrides": "nobody.example:1"})
        await trio.testing.wait_all_tasks_blocked()
        assert quotas.per_address_overrides == {"10.0.0.1": 4}
        config.apply_dynamic({}, {"max.connections.per.ip.overrides": "10.0.0.2:6"})
        await trio.testing.wait_all_tasks_blocked()
        assert quotas.per_address_overrides == {"10.0.0.2": 6}

    assert "the host 'nobody.example' is not known" in caplog.text


def test_an_unknown_host_is_refused_at_start() -> None:
    @in_nursery
    async def _(nursery: trio.Nursery) -> None:
        config = BrokerConfig(BASE | {"max.connections.per.ip.overrides": "nobody.example:4"})
        with pytest.raises(ConfigError, match=r"nobody\.example:4: .*'nobody\.example' is not known"):
            await quotas_of(config, nursery)
