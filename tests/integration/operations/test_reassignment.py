"""Partitions move while producers write to them: planned, throttled, cancelled, interrupted, and over deaths."""

import time
from collections import Counter

import pytest

from tests.integration.faults.load import Load, report
from tests.integration.operations.operating import Operator, check_history
from tests.patience import until

SLOW = 10
"""A throttle in bytes per second at which no move here completes before the test raises it."""
FAST = 100_000_000


def moving(operator: Operator, topic: str) -> set[int]:
    """Return the partitions of a topic that are being moved."""
    found = operator.run("reassign-partitions", "--list")
    return {each["partition"] for each in found if each["topic"] == topic}


def fill(load: Load) -> None:
    """Wait until every partition has so much data that a slow move does not complete by itself."""
    for _ in range(3):
        load.wait_progress()


def test_a_plan_evens_brokers_out_under_load(operator: Operator, record_property) -> None:
    operator.place("planned", *[(0, 1)] * 6)
    with Load(operator.cluster.bootstrap_servers, "planned", 6) as load:
        load.wait_progress()
        began_at = time.perf_counter()
        moved = operator.run("reassign-partitions", "--plan", "--rebalance", "--execute")
        assert all(each["done"] for each in moved["partitions"])
        load.wait_progress()
        report(record_property, "planned move", load.longest_gap_s(began_at))
    assert operator.throttles() == []
    described = operator.run("topics", "--describe")
    placed = [each["replicas"] for topic in described for each in topic["partitions"]]
    for counts in (
        Counter(broker for replicas in placed for broker in replicas),
        Counter(replicas[0] for replicas in placed),
    ):
        assert max(counts.values()) - min(counts.values()) <= 1
    replicas = operator.replicas("planned")
    assert {each[0] for each in replicas.values()} == {0, 1, 2}
    operator.cluster.wait(lambda seen: all(seen.leader("planned", p) == replicas[p][0] for p in replicas))
    check_history(operator.cluster, load, replicas)
    again = operator.run("reassign-partitions", "--plan", "--rebalance")
    assert (again["copies"], again["plan"]["partitions"]) == (0, [])


def test_a_throttle_holds_moves_back_and_leaves_producers_alone(operator: Operator) -> None:
    operator.place("slow", (0, 1), (1, 0))
    with Load(operator.cluster.bootstrap_servers, "slow", 2) as load:
        fill(load)
        file = operator.write("slow", {0: (2, 1), 1: (1, 2)})
        options = ("--reassignment-json-file", file)
        operator.run("reassign-partitions", "--execute", *options, "--throttle", str(SLOW), "--no-wait")
        fill(load)
        operator.run("reassign-partitions", "--verify", *options, expect=2)
        assert moving(operator, "slow") == {0, 1}
        seen = operator.cluster.view()
        assert [sorted(seen.isr("slow", p)) for p in (0, 1)] == [[0, 1], [0, 1]]
        assert len(operator.throttles()) == 8
        operator.run("reassign-partitions", "--execute", *options, "--additional", "--throttle", str(FAST))
    operator.run("reassign-partitions", "--verify", *options)
    until(lambda: operator.throttles() == [])
    check_history(operator.cluster, load, {0: (2, 1), 1: (1, 2)})


def test_a_cancelled_move_goes_back(operator: Operator) -> None:
    operator.place("cancelled", (0, 1), (1, 2))
    with Load(operator.cluster.bootstrap_servers, "cancelled", 2) as load:
        fill(load)
        options = ("--reassignment-json-file", operator.write("cancelled", {0: (2, 1), 1: (0, 2)}))
        operator.run("reassign-partitions", "--execute", *options, "--throttle", str(SLOW), "--no-wait")
        refused = operator.start("reassign-partitions", "--execute", *options)
        assert refused.wait() == 1  # another move is in progress
        done = operator.run("reassign-partitions", "--cancel", *options)
        assert [each["cancelled"] for each in done["partitions"]] == [True, True]
        until(lambda: moving(operator, "cancelled") == set())
        load.wait_progress()
    # In the order that the move gave them, as with Kafka: the znode does not keep the old order.
    assert {p: set(each) for p, each in operator.replicas("cancelled").items()} == {0: {0, 1}, 1: {1, 2}}
    until(lambda: operator.throttles() == [])
    check_history(operator.cluster, load, {0: (0, 1), 1: (1, 2)})


def test_a_killed_command_leaves_no_throttle_behind(operator: Operator) -> None:
    operator.place("orphaned", (0, 1))
    with Load(operator.cluster.bootstrap_servers, "orphaned", 1) as load:
        fill(load)
        file = operator.write("orphaned", {0: (2, 1)})
        command = operator.start(
            *("reassign-partitions", "--execute", "--reassignment-json-file", file, "--throttle", str(SLOW))
        )
        until(lambda: moving(operator, "orphaned") == {0})
        command.kill()
        command.wait()
        load.wait_progress()
        assert moving(operator, "orphaned") == {0}
        operator.throttle_all(FAST)
        until(lambda: moving(operator, "orphaned") == set())
    until(lambda: operator.throttles() == [])
    check_history(operator.cluster, load, {0: (2, 1)})


@pytest.mark.parametrize("victim", ["controller", "source", "target"])
def test_a_move_outlives_deaths(operator: Operator, victim: str, record_property) -> None:
    cluster, topic = operator.cluster, f"outlives-{victim}"
    operator.place(topic, (0, 1), (1, 0))
    with Load(cluster.bootstrap_servers, topic, 2) as load:
        fill(load)
        file = operator.write(topic, {0: (2, 1), 1: (1, 2)})
        operator.run(
            *("reassign-partitions", "--execute", "--reassignment-json-file", file),
            *("--throttle", str(SLOW), "--no-wait"),
        )
        dead = {"controller": cluster.view().controller_id, "source": 0, "target": 2}[victim]
        killed_at = time.perf_counter()
        cluster.kill(dead)
        load.wait_progress()
        report(record_property, f"{victim} killed in a move", load.longest_gap_s(killed_at))
        cluster.start(dead)
        operator.throttle_all(FAST)
        until(lambda: moving(operator, topic) == set())
        load.wait_progress()
    assert operator.replicas(topic) == {0: [2, 1], 1: [1, 2]}
    until(lambda: operator.throttles() == [])
    check_history(cluster, load, {0: (2, 1), 1: (1, 2)})
