"""Who consumes what: Kafka's published examples, and what must hold for every assignment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.old_consumer.assignment import (
    RANGE,
    ROUND_ROBIN,
    AssignmentError,
    GroupView,
    ThreadId,
    assign,
    java_hash,
    owning_consumer,
)
from ottla.old_consumer.subscription import Registration, for_filter, white_list
from wire.types import TopicPartition, WallMs


def view(registrations: dict[str, dict[str, int]], partitions: dict[str, int]) -> GroupView:
    return GroupView(
        {name: Registration(streams) for name, streams in registrations.items()},
        {topic: tuple(range(count)) for topic, count in partitions.items()},
        frozenset(partitions),
        has_brokers=True,
    )


def texts(assignment) -> dict[str, str]:
    """Return the thread that gets each partition, for all ends."""
    return {
        f"{place.topic}-{place.partition}": str(thread)
        for mine in assignment.values()
        for place, thread in sorted(mine.items())
    }


def test_the_example_of_kafkas_range_assignor() -> None:
    """From its documentation: C1 and C2 with two threads each, five partitions."""
    group = view({"C1": {"t": 2}, "C2": {"t": 2}}, {"t": 5})
    found = assign(group, "C1", RANGE, exclude_internal=True)
    assert texts(found) == {"t-0": "C1-0", "t-1": "C1-0", "t-2": "C1-1", "t-3": "C2-0", "t-4": "C2-1"}
    assert texts(assign(group, "C2", RANGE, exclude_internal=True)) == texts(found)


def test_threads_are_ordered_as_texts() -> None:
    group = view({"c": {"t": 11}}, {"t": 11})
    found = assign(group, "c", RANGE, exclude_internal=True)["c"]
    assert [found[TopicPartition("t", number)].number for number in range(4)] == [0, 1, 10, 2]


def test_more_threads_than_partitions() -> None:
    group = view({"a": {"t": 2}, "b": {"t": 2}}, {"t": 2})
    found = assign(group, "b", RANGE, exclude_internal=True)
    assert found == {
        "a": {TopicPartition("t", n): ThreadId("a", n) for n in range(2)},
        "b": {},
    }


def test_range_assigns_own_topics_only() -> None:
    group = view({"a": {"t": 1}, "b": {"t": 1, "u": 1}}, {"t": 2, "u": 1})
    assert texts(assign(group, "a", RANGE, exclude_internal=True)) == {"t-0": "a-0", "t-1": "b-0"}
    assert texts(assign(group, "b", RANGE, exclude_internal=True)) == {
        "t-0": "a-0",
        "t-1": "b-0",
        "u-0": "b-0",
    }


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    group = view({"a": {"t": 1, "missing": 1}}, {"t": 1})
    for strategy in (RANGE, ROUND_ROBIN):
        assert texts(assign(group, "a", strategy, exclude_internal=True)) == {"t-0": "a-0"}


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -2147483648), ("\U0001f600", 1772899)],
)
def test_javas_hash(text, code) -> None:
    assert java_hash(text) == code


def test_round_robin_deals_by_hash() -> None:
    """The order is that of "t0-0".hashCode() and so on, as in Kafka 1.1's RoundRobinAssignor."""
    group = view({"C0": {"t0": 1, "t1": 1}, "C1": {"t0": 1, "t1": 1}}, {"t0": 3, "t1": 2})
    found = assign(group, "C0", ROUND_ROBIN, exclude_internal=True)
    assert texts(found) == {
        "t0-0": "C0-0",
        "t0-1": "C1-0",
        "t0-2": "C0-0",
        "t1-0": "C1-0",
        "t1-1": "C0-0",
    }


@pytest.mark.parametrize(
    "registrations",
    [{"a": {"t": 1, "u": 1}, "b": {"t": 1}}, {"a": {"t": 1, "u": 2}}],
)
def test_round_robin_needs_the_same_subscriptions(registrations) -> None:
    with pytest.raises(AssignmentError, match="same topics and streams"):
        assign(view(registrations, {"t": 2, "u": 2}), "a", ROUND_ROBIN, exclude_internal=True)


def test_filters_take_the_topics_there_are() -> None:
    registration = for_filter(white_list("ord.*"), 2, WallMs(0))
    topics = frozenset({"orders", "ordinals", "other", "__consumer_offsets"})
    group = GroupView({"a": registration}, {"orders": (0, 1), "ordinals": (0,)}, topics, True)
    found = assign(group, "a", RANGE, exclude_internal=True)
    assert texts(found) == {"orders-0": "a-0", "orders-1": "a-1", "ordinals-0": "a-0"}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1),
    st.integers(0, 40),
    st.sampled_from([RANGE, ROUND_ROBIN]),
)
def test_every_partition_has_one_thread_and_shares_are_even(
    streams: dict[str, int], count: int, strategy: str
) -> None:
    group = view({name: {"t": number} for name, number in streams.items()}, {"t": count})
    found = [assign(group, name, strategy, exclude_internal=True) for name in streams]
    assert all(each == found[0] for each in found)
    threads = [thread for mine in found[0].values() for thread in mine.values()]
    assert sorted(place.partition for mine in found[0].values() for place in mine) == list(range(count))
    shares = [
        sum(each == ThreadId(name, n) for each in threads) for name in streams for n in range(streams[name])
    ]
    assert max(shares) - min(shares) <= 1


def test_what_changes_an_assignment() -> None:
    group = view({"a": {"t": 1}}, {"t": 2})
    assert group.decides_like(view({"a": {"t": 1}}, {"t": 2}), exclude_internal=True)
    assert not group.decides_like(None, exclude_internal=True)
    assert not group.decides_like(view({"a": {"t": 2}}, {"t": 2}), exclude_internal=True)
    assert not group.decides_like(view({"a": {"t": 1}}, {"t": 3}), exclude_internal=True)


def test_an_owners_text() -> None:
    assert str(ThreadId("g_h-1-0abc", 3)) == "g_h-1-0abc-3"
    assert owning_consumer("g_h-1-0abc-3") == "g_h-1-0abc"
