"""Counts against limits, and which waiter wakes when a slot becomes free."""

import pytest

from cluster.network.connection_quotas import ConnectionQuotas, TooManyConnectionsError


def test_an_address_has_its_limit_and_an_override_wins() -> None:
    quotas = ConnectionQuotas(("A",), per_address_max=2, per_address_overrides={"10.0.0.1": 1})
    quotas.take("A", "10.0.0.2", 0.0)
    quotas.take("A", "10.0.0.2", 0.0)
    quotas.take("A", "10.0.0.1", 0.0)
    for address, limit in (("10.0.0.2", 2), ("10.0.0.1", 1)):
        with pytest.raises(TooManyConnectionsError) as caught:
            quotas.take("A", address, 0.0)
        assert caught.value.limit == limit
    assert quotas.total == 3
    quotas.give_back("A", "10.0.0.1")
    assert quotas.count_of("10.0.0.1") == 0
    quotas.take("A", "10.0.0.1", 0.0)


def test_the_total_holds_up_all_but_the_inter_broker_listener() -> None:
    quotas = ConnectionQuotas(("A", "B"), inter_broker_listener="B", connections_max=1)
    quotas.take("A", "x", 0.0)
    assert not quotas.has_slot("A")
    assert quotas.has_slot("B")
    quotas.take("B", "x", 0.0)
    assert quotas.is_over_total("B")
    assert not quotas.is_over_total("A")
    assert quotas.is_protected("B")
    assert not quotas.is_protected("A")


def test_the_controllers_listener_is_not_held_up_either() -> None:
    quotas = ConnectionQuotas(
        ("A", "B", "C"), inter_broker_listener="B", control_plane_listener="C", connections_max=1
    )
    quotas.creation_rate.limit = 1
    quotas.take("A", "x", 0.0)
    for _ in range(100):
        quotas.take("C", "x", 0.0)
    assert quotas.has_slot("C")
    assert quotas.rest_s("C", 0.0) == 0
    assert quotas.is_over_total("C")
    assert not quotas.has_slot("A")


def test_a_listener_that_is_the_only_one_is_not_protected() -> None:
    quotas = ConnectionQuotas(("A",), inter_broker_listener="A", connections_max=1)
    quotas.take("A", "x", 0.0)
    assert not quotas.has_slot("A")


def test_a_listener_has_its_own_limit() -> None:
    quotas = ConnectionQuotas(("A", "B"), inter_broker_listener="B", per_listener_max={"B": 1})
    quotas.take("B", "x", 0.0)
    assert not quotas.has_slot("B")
    assert quotas.has_slot("A")
    assert quotas.counts_by_listener() == {("A",): 0, ("B",): 1}


def test_who_waits_is_woken_once_by_a_departure_or_a_new_limit() -> None:
    quotas = ConnectionQuotas(("A",), connections_max=1)
    quotas.take("A", "x", 0.0)
    woken: list[str] = []
    quotas.call_when_slot(lambda: woken.append("left"))
    quotas.give_back("A", "x")
    quotas.take("A", "x", 0.0)
    quotas.call_when_slot(lambda: woken.append("raised"))
    quotas.connections_max = 2
    quotas.limits_changed()
    quotas.limits_changed()
    assert woken == ["left", "raised"]


def test_a_listener_rests_when_connections_come_too_fast() -> None:
    quotas = ConnectionQuotas(("A", "B"), rate_windows=2, rate_window_s=1.0)
    quotas.listener_rates["A"].limit = 2
    quotas.take("A", "x", 10.0)
    quotas.take("A", "x", 10.0)
    assert quotas.rest_s("A", 10.0) == 0
    quotas.take("A", "x", 10.0)
    assert quotas.rest_s("A", 10.0) == 0.5
    assert quotas.rest_s("A", 10.25) == 0.25
    assert quotas.rest_s("A", 11.0) == 0
    assert quotas.rest_s("B", 10.0) == 0
    assert quotas.rests_by_listener() == {("A",): 0.5, ("B",): 0.0}


def test_the_brokers_rate_holds_for_all_but_the_inter_broker_listener() -> None:
    quotas = ConnectionQuotas(("A", "B", "C"), inter_broker_listener="B", rate_windows=2, rate_window_s=1.0)
    quotas.creation_rate.limit = 1
    quotas.take("A", "x", 0.0)
    for _ in range(5):
        quotas.take("B", "x", 0.0)
    assert quotas.rest_s("A", 0.0) == quotas.rest_s("B", 0.0) == 0
    quotas.take("C", "x", 0.0)
    assert quotas.rest_s("C", 0.0) == 1.0
    assert quotas.rest_s("A", 0.0) == 0, "it finds out with its own next connection"


def test_a_refused_address_counts_for_the_rate() -> None:
    quotas = ConnectionQuotas(("A",), per_address_max=0, rate_windows=2, rate_window_s=1.0)
    quotas.creation_rate.limit = 1
    for _ in range(2):
        with pytest.raises(TooManyConnectionsError):
            quotas.take("A", "x", 0.0)
    assert quotas.total == 0
    assert quotas.rest_s("A", 0.0) == 1.0
