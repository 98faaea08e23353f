"""Counts against limits, and who is woken when a slot comes free."""

import pytest

from cluster.network.connection_quotas import (
    ConnectionQuotas,
    QuotaFormatError,
    TooManyConnectionsError,
    parse_overrides,
)


def test_an_address_has_its_limit_and_an_override_wins() -> None:
    quotas = ConnectionQuotas(("A",), per_address_max=2, per_address_overrides={"10.0.0.1": 1})
    quotas.take("A", "10.0.0.2")
    quotas.take("A", "10.0.0.2")
    quotas.take("A", "10.0.0.1")
    for address, limit in (("10.0.0.2", 2), ("10.0.0.1", 1)):
        with pytest.raises(TooManyConnectionsError) as caught:
            quotas.take("A", address)
        assert caught.value.limit == limit
    assert quotas.total == 3
    quotas.give_back("A", "10.0.0.1")
    assert quotas.count_of("10.0.0.1") == 0
    quotas.take("A", "10.0.0.1")


def test_the_total_holds_up_all_but_the_inter_broker_listener() -> None:
    quotas = ConnectionQuotas(("A", "B"), inter_broker_listener="B", connections_max=1)
    quotas.take("A", "x")
    assert not quotas.has_slot("A")
    assert quotas.has_slot("B")
    quotas.take("B", "x")
    assert quotas.is_over_total("B")
    assert not quotas.is_over_total("A")
    assert quotas.is_protected("B")
    assert not quotas.is_protected("A")


def test_a_listener_that_is_the_only_one_is_not_protected() -> None:
    quotas = ConnectionQuotas(("A",), inter_broker_listener="A", connections_max=1)
    quotas.take("A", "x")
    assert not quotas.has_slot("A")


def test_a_listener_has_its_own_limit() -> None:
    quotas = ConnectionQuotas(("A", "B"), inter_broker_listener="B", per_listener_max={"B": 1})
    quotas.take("B", "x")
    assert not quotas.has_slot("B")
    assert quotas.has_slot("A")
    assert quotas.counts_by_listener() == {("A",): 0, ("B",): 1}


def test_who_waits_is_woken_once_by_a_departure_or_a_new_limit() -> None:
    quotas = ConnectionQuotas(("A",), connections_max=1)
    quotas.take("A", "x")
    woken: list[str] = []
    quotas.call_when_slot(lambda: woken.append("left"))
    quotas.give_back("A", "x")
    quotas.take("A", "x")
    quotas.call_when_slot(lambda: woken.append("raised"))
    quotas.connections_max = 2
    quotas.limits_changed()
    quotas.limits_changed()
    assert woken == ["left", "raised"]


def test_overrides_are_read() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides("a.example:10, [::1]:5,127.0.0.1:0") == {"a.example": 10, "::1": 5, "127.0.0.1": 0}


@pytest.mark.parametrize("text", ["host", "host:", ":5", "host:-1", "host:many"])
def test_bad_overrides_are_refused(text: str) -> None:
    with pytest.raises(QuotaFormatError):
        parse_overrides(text)
