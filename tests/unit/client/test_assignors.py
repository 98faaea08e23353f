"""Assignors: Java's result where there is only one answer; balance and stickiness where there are several."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.assignors import (
    ASSIGNORS,
    MemberSubscription,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky,
    read_sticky_user_data,
    sticky_user_data,
)
from wire.types import TopicPartition


def places(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def both(*topics: str, **options) -> MemberSubscription:
    return MemberSubscription(topics, **options)


def test_range_gives_runs_and_the_first_one_more() -> None:
    found = assign_range({"a": 3, "b": 5}, {"m2": both("a", "b"), "m1": both("a", "b")})
    assert found == {
        "m1": places("a", 0, 1) + places("b", 0, 1, 2),
        "m2": places("a", 2) + places("b", 3, 4),
    }


def test_round_robin_deals_across_topics() -> None:
    found = assign_round_robin({"a": 3, "b": 2}, {"m1": both("a", "b"), "m2": both("a", "b")})
    assert found == {"m1": [*places("a", 0, 2), *places("b", 1)], "m2": [*places("a", 1), *places("b", 0)]}
    uneven = assign_round_robin(
        {"a": 1, "b": 2, "c": 3}, {"m1": both("a"), "m2": both("a", "b"), "m3": both("a", "b", "c")}
    )
    assert uneven == {
        "m1": places("a", 0),
        "m2": places("b", 0),
        "m3": [*places("b", 1), *places("c", 0, 1, 2)],
    }


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = {"m1": both("a"), "z": both("a", instance_id="1"), "y": both("a", instance_id="2")}
    assert assign_range({"a": 3}, members) == {"m1": places("a", 2), "z": places("a", 0), "y": places("a", 1)}


@given(st.integers(0, 10**6))
def test_sticky_assignments(seed: int) -> None:
    source = random.Random(seed)
    counts = {topic: source.randrange(1, 9) for topic in "abc"[: source.randrange(1, 4)]}
    alike = source.random() < 0.6
    members = {
        f"m{i}": both(
            *(counts if alike else source.sample(sorted(counts), source.randrange(1, len(counts) + 1)))
        )
        for i in range(source.randrange(1, 6))
    }
    for generation in range(1, 5):
        wanted = {
            TopicPartition(t, n)
            for t, c in counts.items()
            for n in range(c)
            if any(t in m.topics for m in members.values())
        }
        found = assign_sticky(counts, members)
        dealt = [partition for partitions in found.values() for partition in partitions]
        assert sorted(dealt) == sorted(wanted)
        assert all(
            partition.topic in members[member].topics for member, some in found.items() for partition in some
        )
        sizes = [len(some) for some in found.values()]
        if alike:
            assert max(sizes) - min(sizes) <= 1
        owned = {
            member: both(*m.topics, owned=tuple(found[member]), generation=generation)
            for member, m in members.items()
        }
        assert assign_sticky(counts, owned) == found, "a second time moves nothing"
        step = assign_cooperative_sticky(counts, owned)
        assert step == found
        if len(owned) > 1:
            leaving = source.choice(sorted(owned))
            kept = {member: m for member, m in owned.items() if member != leaving}
            after = assign_sticky(counts, kept)
            if alike:
                for member in kept:
                    assert set(found[member]) <= set(after[member]), (
                        "nobody loses what it has because one leaves"
                    )
        members = {
            **{k: both(*m.topics, owned=m.owned, generation=m.generation) for k, m in owned.items()},
            f"n{generation}": both(*counts),
        }
        cooperative = assign_cooperative_sticky(counts, members)
        target = assign_sticky(counts, members)
        for member, partitions in cooperative.items():
            for partition in partitions:
                holder = next((m for m, s in members.items() if partition in s.owned), member)
                assert holder == member, "what is still held by one is given to no other"
            assert set(partitions) <= set(target[member])


def test_of_two_claims_the_later_generation_counts() -> None:
    members = {
        "old": both("a", owned=tuple(places("a", 0, 1)), generation=3),
        "new": both("a", owned=tuple(places("a", 1)), generation=4),
        "twin": both("a", owned=tuple(places("a", 2)), generation=4),
        "rival": both("a", owned=tuple(places("a", 2)), generation=4),
    }
    found = assign_sticky({"a": 4}, members)
    assert TopicPartition("a", 1) in found["new"]
    assert TopicPartition("a", 0) in found["old"]


def test_what_sticky_says_of_itself() -> None:
    owned = [*places("a", 0, 7), *places("é", 3)]
    assert read_sticky_user_data(sticky_user_data(owned, 5)) == (owned, 5)
    assert read_sticky_user_data(sticky_user_data(owned, 5)[:-4]) == (owned, -1), (
        "version 0 has no generation"
    )
    assert read_sticky_user_data(b"\0\0\0\1\0") == ([], -1)


def test_the_names_are_javas() -> None:
    assert set(ASSIGNORS) == {"range", "roundrobin", "sticky", "cooperative-sticky"}
