"""Leaders are elected while producers write: preferred ones in a loop, an unclean one when no other replica is left."""

import time

from tests.integration.faults.load import Load, report
from tests.integration.operations.operating import Operator, check_history

ROUNDS = 5


def elect(operator: Operator, topic: str, *arguments: str, expect: int = 0) -> list[dict[str, object]]:
    options = ("--topic", topic, *arguments)
    found: list[dict[str, object]] = operator.run("elect-leaders", *options, expect=expect)
    return found


def test_preferred_leaders_in_a_loop_under_load(operator: Operator, record_property) -> None:
    cluster = operator.cluster
    operator.place("preferred", (0, 1, 2), (1, 2, 0))
    order = {0: [0, 1, 2], 1: [1, 2, 0]}
    with Load(cluster.bootstrap_servers, "preferred", 2) as load:
        load.wait_progress()
        began_at = time.perf_counter()
        for _ in range(ROUNDS):
            # The next broker becomes the preferred one: an order that changes copies nothing.
            order = {number: [*replicas[1:], replicas[0]] for number, replicas in order.items()}
            file = operator.write("preferred", order)
            operator.run("reassign-partitions", "--execute", "--reassignment-json-file", file)
            outcomes = elect(operator, "preferred", "--election-type", "preferred")
            assert [(each["elected"], each["leader"]) for each in outcomes] == [
                (True, replicas[0]) for replicas in order.values()
            ]
            load.wait_progress()
        report(record_property, "preferred elections", load.longest_gap_s(began_at))
        again = elect(operator, "preferred", "--election-type", "preferred")
        assert [each["reason"] for each in again] == ["not needed", "not needed"]
    check_history(cluster, load, order)


def test_a_dead_preferred_leader_is_named(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("deserted", (2, 0), (0, 2))
    cluster.kill(2)
    cluster.wait(lambda seen: seen.leader("deserted", 0) == 0)
    outcomes = elect(operator, "deserted", "--election-type", "preferred", expect=1)
    assert [(each["elected"], each["leader"]) for each in outcomes] == [(False, 0), (False, 0)]
    assert [each["reason"] for each in outcomes] == ["preferred leader 2 is not alive", "not needed"]
    cluster.start(2)
    cluster.wait(lambda seen: seen.isr("deserted", 0) == {0, 2})
    found = operator.run("preferred-leader-election", "--topic", "deserted")
    assert [each["leader"] for each in found] == [2, 0]


def test_an_unclean_leader_where_nobody_in_sync_is_left(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("unclean", (0, 1))
    cluster.kill(0)
    cluster.wait(lambda seen: seen.isr("unclean", 0) == {1})
    cluster.kill(1)
    cluster.start(0)
    # Broker 0 has fallen out of sync, so it must not lead, preferred or not.
    assert cluster.view().leader("unclean", 0) == -1
    (refused,) = elect(operator, "unclean", "--partition", "0", "--election-type", "preferred", expect=1)
    assert refused["error"] == "PREFERRED_LEADER_NOT_AVAILABLE"
    (outcome,) = elect(operator, "unclean", "--partition", "0", "--election-type", "unclean")
    assert (outcome["elected"], outcome["leader"]) == (True, 0)
    cluster.start(1)
    cluster.wait(lambda seen: seen.isr("unclean", 0) == {0, 1})
    (needless,) = elect(operator, "unclean", "--partition", "0", "--election-type", "unclean")
    assert needless["error"] == "ELECTION_NOT_NEEDED"
