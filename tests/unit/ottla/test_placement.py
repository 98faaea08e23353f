"""Plans for moving replicas: as few as possible, even, and apart."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.placement import PlacementError, Plan, Replicas, rebalanced, with_brokers, without_brokers
from wire.types import BrokerId, TopicPartition

Assignment = dict[TopicPartition, Replicas]


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)


def racks(count: int, names: str = "") -> dict[BrokerId, str | None]:
    return {BrokerId(each): names[each % len(names)] if names else None for each in range(count)}


def assigned(partitions: int, count: int, factor: int, topic: str = "t") -> Assignment:
    return {
        TopicPartition(topic, each): brokers(*((each + replica) % count for replica in range(factor)))
        for each in range(partitions)
    }


def held(assignment: Mapping[TopicPartition, Replicas]) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def led(assignment: Mapping[TopicPartition, Replicas]) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def check_sound(plan: Plan) -> None:
    for partition, replicas in plan.after.items():
        assert len(set(replicas)) == len(replicas) == len(plan.before[partition])
        assert replicas != plan.before[partition]


def test_nothing_moves_where_all_is_even() -> None:
    plan = rebalanced(assigned(6, 3, 2), racks(3))
    assert plan.after == {}
    assert plan.copies == 0


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    before = assigned(12, 3, 2)
    plan = with_brokers(before, racks(4), brokers(3))
    check_sound(plan)
    assert held(plan.result) == {0: 6, 1: 6, 2: 6, 3: 6}
    assert plan.copies == 6
    assert {added for partition in plan.after for added in plan.added(partition)} == {3}
    assert led(plan.result)[BrokerId(3)] == 3


def test_a_leaving_broker_is_emptied_by_its_own_replicas_only() -> None:
    before = assigned(12, 4, 2)
    plan = without_brokers(before, racks(4), brokers(3))
    check_sound(plan)
    assert held(plan.result) == {0: 8, 1: 8, 2: 8}
    assert plan.copies == held(before)[BrokerId(3)]
    assert led(plan.result) == {0: 4, 1: 4, 2: 4}
    untouched = [partition for partition, replicas in before.items() if BrokerId(3) not in replicas]
    assert not set(untouched) & plan.after.keys()


def test_a_broker_cannot_leave_that_is_needed() -> None:
    with pytest.raises(PlacementError, match="t-2 has 3 replicas, but there would be 2 brokers"):
        without_brokers(assigned(3, 3, 3), racks(3), brokers(0))


def test_a_broker_that_is_not_alive_cannot_be_filled() -> None:
    with pytest.raises(PlacementError, match="not alive: broker 7"):
        with_brokers(assigned(3, 3, 3), racks(3), brokers(7))


def test_racks_of_some_brokers_only_are_refused() -> None:
    with pytest.raises(PlacementError, match="not broker 1"):
        rebalanced(assigned(3, 2, 1), {BrokerId(0): "a", BrokerId(1): None})


def test_replicas_stay_in_different_racks() -> None:
    before = {TopicPartition("t", each): brokers(0, 1) for each in range(4)}
    plan = rebalanced(before, racks(4, "ab"))  # 0 and 2 in a, 1 and 3 in b
    check_sound(plan)
    assert held(plan.result) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert all({broker % 2 for broker in replicas} == {0, 1} for replicas in plan.result.values())
    assert plan.copies == 4


def test_replicas_that_share_a_rack_are_parted() -> None:
    before = {TopicPartition("t", each): brokers(0, 2) for each in range(2)}
    plan = rebalanced(before, racks(4, "ab"))
    assert all({broker % 2 for broker in replicas} == {0, 1} for replicas in plan.result.values())
    assert plan.copies == 2


def test_a_leaving_broker_is_replaced_from_its_rack() -> None:
    before = {TopicPartition("t", 0): brokers(0, 1)}
    plan = without_brokers(before, racks(4, "ab"), brokers(1))
    assert plan.after[TopicPartition("t", 0)] == brokers(0, 3)


def test_a_chain_is_found_where_the_direct_move_is_barred() -> None:
    # Broker 0 has four replicas, and can move none directly to 2: all that 0 has is also on 2, but not on 1.
    before = {
        TopicPartition("a", 0): brokers(0, 2),
        TopicPartition("b", 0): brokers(0, 2),
        TopicPartition("c", 0): brokers(
            0,
        ),
        TopicPartition("d", 0): brokers(0, 1),
        TopicPartition("e", 0): brokers(
            1,
        ),
    }
    plan = rebalanced(before, racks(3))
    check_sound(plan)
    counts = held(plan.result)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert plan.copies == 1


def test_leaders_are_evened_without_copying() -> None:
    before = {TopicPartition("t", each): brokers(0, 1, 2) for each in range(6)}
    plan = rebalanced(before, racks(3))
    assert plan.copies == 0
    assert led(plan.result) == {0: 2, 1: 2, 2: 2}
    assert len(plan.after) == 4


def test_leaders_are_even_in_each_topic_even_where_their_sums_are() -> None:
    before = {TopicPartition("busy", each): brokers(0, 1) for each in range(4)}
    before |= {TopicPartition("idle", each): brokers(1, 0) for each in range(4)}
    plan = rebalanced(before, racks(2))
    for topic in ("busy", "idle"):
        assert led({each: one for each, one in plan.result.items() if each.topic == topic}) == {0: 2, 1: 2}


def test_sums_of_leaders_are_not_evened_at_a_topics_cost() -> None:
    before = {TopicPartition("a", each): brokers(0, 1) for each in range(1)}
    before |= {TopicPartition("b", each): brokers(each % 2, 1 - each % 2) for each in range(4)}
    before |= {TopicPartition("c", each): brokers(0, 1) for each in range(1)}
    plan = rebalanced(before, racks(2))
    assert led(plan.result) == {0: 3, 1: 3}
    assert led({each: one for each, one in plan.result.items() if each.topic == "b"}) == {0: 2, 1: 2}


def test_bytes_are_counted_per_copy() -> None:
    before = {TopicPartition("t", 0): brokers(0), TopicPartition("t", 1): brokers(0)}
    plan = rebalanced(before, racks(2))
    assert plan.copied_bytes({TopicPartition("t", 0): 10, TopicPartition("t", 1): 10}) == 10


def test_replicas_of_dead_brokers_are_brought_back() -> None:
    before = {TopicPartition("t", each): brokers(each % 2, 9) for each in range(4)}
    plan = rebalanced(before, racks(3))
    assert 9 not in held(plan.result)
    assert max(held(plan.result).values()) == 3
    assert plan.copies == 4


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, dict[BrokerId, str | None]]:
    count = draw(st.integers(2, 7))
    names = draw(st.sampled_from(["", "ab", "abc"]))
    assignment: Assignment = {}
    for topic in draw(st.lists(st.sampled_from("xyz"), unique=True, min_size=1)):
        factor = draw(st.integers(1, min(3, count)))
        for partition in range(draw(st.integers(1, 8))):
            replicas = draw(st.permutations(range(count)))[:factor]
            assignment[TopicPartition(topic, partition)] = brokers(*replicas)
    return assignment, racks(count, names)


def fewest_moves(assignment: Mapping[TopicPartition, Replicas], count: int) -> int:
    """Return the fewest moves to an even placement: each broker gives away what it has above its share."""
    counts = sorted((held(assignment)[BrokerId(each)] for each in range(count)), reverse=True)
    share, larger = divmod(sum(counts), count)
    return sum(max(0, have - share - (place < larger)) for place, have in enumerate(counts))


@given(clusters())
def test_a_rebalance_is_even_and_minimal_without_racks(
    cluster: tuple[Assignment, dict[BrokerId, str | None]],
) -> None:
    before, known = cluster
    plan = rebalanced(before, racks(len(known)))
    check_sound(plan)
    counts = [held(plan.result)[broker] for broker in known]
    assert max(counts) - min(counts) <= 1
    assert plan.copies <= fewest_moves(before, len(known))
    assert rebalanced(plan.result, racks(len(known))).after == {}


@given(clusters())
def test_a_rebalance_that_was_carried_out_leaves_nothing_to_do(
    cluster: tuple[Assignment, dict[BrokerId, str | None]],
) -> None:
    before, known = cluster
    assert rebalanced(rebalanced(before, known).result, known).after == {}


@given(clusters())
def test_no_plan_brings_replicas_closer(cluster: tuple[Assignment, dict[BrokerId, str | None]]) -> None:
    before, known = cluster
    names = {rack for rack in known.values() if rack}
    for plan in (rebalanced(before, known), with_brokers(before, known, [max(known)])):
        check_sound(plan)
        for partition, replicas in plan.after.items():
            now = {known[broker] for broker in replicas} - {None}
            then = {known[broker] for broker in plan.before[partition]} - {None}
            assert len(now) >= len(then)
    for replicas in rebalanced(before, known).result.values():
        assert len({known[broker] for broker in replicas} - {None}) == min(len(replicas), len(names))
