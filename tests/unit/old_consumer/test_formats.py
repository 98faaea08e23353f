"""The old consumer's znodes, settings, states and migration: the pure parts."""

import json

import pytest

from cluster.zookeeper.json_data import MalformedZnodeError
from ottla.old_consumer.offsets import MigratedOffset, farthest, plan_migration
from ottla.old_consumer.settings import OldConsumerSettings, Reset, Storage, parse_properties
from ottla.old_consumer.states import TRANSITIONS, EndEvent, EndState, IllegalEndTransition, advance
from ottla.old_consumer.subscription import (
    Pattern,
    black_list,
    decode_registration,
    encode_registration,
    for_filter,
    for_topics,
    white_list,
)
from wire.types import Offset, TopicPartition, WallMs

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_a_registration_is_kafkas_json() -> None:
    registration = for_topics({"orders": 2, "bills": 1}, WallMs(1_700_000_000_000))
    data = encode_registration(registration)
    assert data == (
        b'{"version":1,"subscription":{"orders":2,"bills":1},"pattern":"static","timestamp":"1700000000000"}'
    )
    assert decode_registration("c", data) == registration


@pytest.mark.parametrize(("make", "pattern"), [(white_list, "white_list"), (black_list, "black_list")])
def test_a_filters_registration(make, pattern) -> None:
    registration = for_filter(make("a.*, b"), 3, WallMs(5))
    data = encode_registration(registration)
    assert json.loads(data) == {
        "version": 1,
        "subscription": {"a.*|b": 3},
        "pattern": pattern,
        "timestamp": "5",
    }
    assert decode_registration("c", data) == registration


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"pattern":"static"}', "malformed"),
        (b'{"subscription":{"t":1},"pattern":"other"}', "malformed"),
        (b'{"subscription":{"t":"x"},"pattern":"static"}', "malformed"),
        (b'{"subscription":{"a":1,"b":1},"pattern":"white_list"}', "2 filters"),
        (b'{"subscription":{"(":1},"pattern":"white_list"}', "malformed"),
    ],
)
def test_other_registrations_are_refused(data, text) -> None:
    with pytest.raises(MalformedZnodeError, match=text):
        decode_registration("c", data)


@pytest.mark.parametrize(
    ("chosen", "topic", "taken"),
    [
        (white_list("a|b"), "a", True),
        (white_list("a"), "ab", False),  # whole names
        (white_list('"a.*"'), "ab", True),
        (white_list(".*"), "__consumer_offsets", False),
        (black_list("a"), "b", True),
        (black_list("a,b"), "b", False),
        (black_list("a"), "__transaction_state", False),
    ],
)
def test_filters(chosen, topic, taken) -> None:
    assert chosen.takes(topic, exclude_internal=True) is taken


def test_internal_topics_are_taken_where_that_is_asked_for() -> None:
    assert white_list("__consumer.*").takes("__consumer_offsets", exclude_internal=False)
    assert white_list("a").pattern is Pattern.WHITE_LIST


@pytest.mark.parametrize("streams", [{}, {"t": 0}])
def test_a_subscription_needs_streams(streams) -> None:
    with pytest.raises(ValueError, match="need"):
        for_topics(streams, WallMs(0))
    with pytest.raises(ValueError, match="need"):
        for_filter(white_list("t"), 0, WallMs(0))


REQUIRED = {"group.id": "g", "zookeeper.connect": "z:2181"}


def test_kafkas_defaults() -> None:
    settings, unknown = parse_properties(REQUIRED)
    assert settings == OldConsumerSettings(group_id="g", zookeeper_connect="z:2181")
    assert unknown == ()
    assert (settings.zookeeper_session_timeout, settings.rebalance_max_retries) == (6.0, 4)
    assert (settings.auto_offset_reset, settings.offsets_storage) == (Reset.LARGEST, Storage.ZOOKEEPER)
    assert settings.consumer_timeout is None
    assert settings.commits_to_zookeeper
    assert not settings.is_dual


def test_properties() -> None:
    settings, unknown = parse_properties(
        REQUIRED
        | {
            "offsets.storage": "kafka",
            "zookeeper.sync.time.ms": "500",
            "consumer.timeout.ms": "10",
            "auto.offset.reset": "smallest",
            "num.consumer.fetchers": "4",
            "partition.assignment.strategy": "roundrobin",
            "no.such.thing": "1",
        }
    )
    assert unknown == ("no.such.thing",)
    assert settings.rebalance_backoff == 0.5
    assert settings.consumer_timeout == 0.01
    assert settings.is_dual
    assert settings.commits_to_zookeeper
    once = OldConsumerSettings(
        group_id="g", zookeeper_connect="z", offsets_storage=Storage.KAFKA, dual_commit=False
    )
    assert not once.commits_to_zookeeper


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"group.id": "g"}, "zookeeper.connect is missing"),
        ({"zookeeper.connect": "z"}, "group.id is missing"),
        (REQUIRED | {"group.id": "a/b"}, "group.id=a/b"),
        (REQUIRED | {"consumer.id": "a b"}, "consumer.id=a b"),
        (REQUIRED | {"auto.offset.reset": "earliest"}, "one of smallest, largest"),
        (REQUIRED | {"auto.commit.enable": "yes"}, "true or false"),
        (REQUIRED | {"fetch.min.bytes": "many"}, "it is a number"),
        (REQUIRED | {"fetch.wait.max.ms": "40000"}, "socket.timeout.ms"),
        (REQUIRED | {"rebalance.max.retries": "0"}, "must be positive"),
    ],
)
def test_bad_properties(properties, text) -> None:
    with pytest.raises(ValueError, match=text):
        parse_properties(properties)


@pytest.mark.parametrize("state", EndState)
@pytest.mark.parametrize("event", EndEvent)
def test_every_other_pair_is_illegal(state, event) -> None:
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalEndTransition, match=f"{event.value} while {state.value}"):
            advance(state, event)


def test_every_state_is_reached_and_left() -> None:
    assert set(TRANSITIONS.values()) | {EndState.IDLE} == set(EndState)
    assert {state for state, _ in TRANSITIONS} | {EndState.CLOSED} == set(EndState)


def offsets(**numbers: int) -> dict[TopicPartition, Offset]:
    return {TopicPartition("t", int(name[1:])): Offset(number) for name, number in numbers.items()}


def test_while_both_stores_are_used_the_farther_offset_holds() -> None:
    assert farthest(offsets(p0=5, p1=7), offsets(p1=6, p2=1)) == offsets(p0=5, p1=7, p2=1)


def test_a_migration_never_goes_back() -> None:
    plan = plan_migration(offsets(p0=5, p1=7, p2=3), offsets(p1=9, p2=2))
    assert plan == {
        T0: MigratedOffset(Offset(5), None),
        T1: MigratedOffset(Offset(7), Offset(9)),
        T2: MigratedOffset(Offset(3), Offset(2)),
    }
    assert {place: each.after for place, each in plan.items()} == offsets(p0=5, p1=9, p2=3)
    assert [each.changes for each in plan.values()] == [True, False, True]
    assert not MigratedOffset(Offset(5), Offset(5)).changes
