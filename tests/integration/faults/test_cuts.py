"""Links that are cut: connections stay open and hang, and each side has its own idea of who is alive."""

import time

from tests.integration.faults.harmed_cluster import BROKERS, PARTITIONS, HarmedCluster, host, led_by_others
from tests.integration.faults.load import Load, report
from tests.patience import until


def test_a_leader_loses_its_followers(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F05: all see ZooKeeper. The leader shrinks its ISR to itself and acknowledges nothing; the others go on."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.view()
        alone = next(p for p in range(PARTITIONS) if seen.leader(topic, p) != seen.controller_id)
        leader = seen.leader(topic, alone)
        others = [p for p in range(PARTITIONS) if seen.leader(topic, p) != leader]
        began = time.perf_counter()
        harmed.network.cut(host(leader), *(host(b) for b in BROKERS if b != leader))
        harmed.wait(lambda seen: seen.isr(topic, alone) == {leader})
        before = load.acknowledged(alone)
        load.wait_progress(*others)
        report(record_property, "F05 leader without followers: others", load.longest_gap_s(began, *others))
        assert load.acknowledged(alone) == before
        harmed.network.heal()
        harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
        report(record_property, "F05 leader without followers: its own", load.longest_gap_s(began))
    harmed.verify(load)


def test_a_leader_loses_zookeeper(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F06: clients and brokers still reach the leader."""
    seen = harmed.wait_whole()
    leader = next(b for b in (seen.leader(topic, p) for p in range(PARTITIONS)) if b != seen.controller_id)
    loses_zookeeper(harmed, topic, leader, record_property, "F06 leader without ZooKeeper")


def test_the_controller_loses_zookeeper(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F06: a successor is elected while the former controller still reaches every broker."""
    former = harmed.wait_whole().controller_id
    loses_zookeeper(harmed, topic, former, record_property, "F06 controller without ZooKeeper")
    assert harmed.wait_whole().controller_id != former


def loses_zookeeper(harmed: HarmedCluster, topic: str, broker: int, record_property, what: str) -> None:
    """Cut a broker from ZooKeeper: nothing that it takes after the election is acknowledged.

    A client that knows it as a leader learns nothing new until it asks another broker, as with Apache Kafka; a client
    that asks another broker goes on at once, and so do the partitions that others lead.
    """
    others = [p for p in range(PARTITIONS) if harmed.view().leader(topic, p) != broker]
    reachable = ",".join(harmed.address(b) for b in BROKERS if b != broker)
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        began = time.perf_counter()
        harmed.network.cut(host(broker), *harmed.ensemble.hosts)
        harmed.wait(lambda seen: led_by_others(seen, topic, PARTITIONS, broker))
        load.wait_progress(*others)
        with Load(reachable, topic, PARTITIONS, name="q", history=load.history) as newcomer:
            newcomer.wait_progress()
            report(record_property, f"{what}: others", load.longest_gap_s(began, *others))
            harmed.network.heal()
            harmed.wait_whole()
            harmed.wait_in_sync(topic, PARTITIONS)
            load.wait_progress()
            newcomer.wait_progress()
        report(record_property, f"{what}: its own, until it was back", load.longest_gap_s(began))
    harmed.verify(load)


def test_a_link_works_one_way_only(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F07: a broker's packets to another are lost; what the other sends arrives."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.view()
        sender = next(
            b for b in (seen.leader(topic, p) for p in range(PARTITIONS)) if b != seen.controller_id
        )
        receiver = next(b for b in BROKERS if b not in (sender, seen.controller_id))
        began = time.perf_counter()
        harmed.network.cut_one_way(host(sender), host(receiver))
        harmed.wait(
            lambda seen: all(len(seen.isr(topic, p)) < 3 for p in led_by(seen, topic, sender, receiver))
        )
        load.wait_progress()
        report(record_property, "F07 link one way", load.longest_gap_s(began))
        harmed.network.heal()
        harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
    harmed.verify(load)


def test_answers_are_lost_after_the_append(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F09: what a leader appended without an answer is sent again over other connections, and is there once."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.view()
        leader = seen.leader(topic, 0)
        led = [p for p in range(PARTITIONS) if seen.leader(topic, p) == leader]
        began = time.perf_counter()
        harmed.network.lose_answers(host(leader))
        # The producer's unanswered requests are limited, and each is for one partition: wait for any of them.
        harmed.wait(lambda seen: any(end_of(seen, topic, p) > load.acknowledged_end(p) for p in led))
        harmed.network.reset_clients(host(leader))
        until(lambda: harmed.network.resets(host(leader)) > 0)
        harmed.network.heal()
        load.wait_progress()
        report(record_property, "F09 answers lost", load.longest_gap_s(began))
    harmed.verify(load)


def end_of(seen, topic: str, partition: int) -> int:
    """Return the log end of a partition's leader."""
    return seen.partition(topic, partition)["log_end"]


def test_a_leader_is_isolated(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F08: nothing reaches the leader, for longer than its session; the rest goes on, and it comes back."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.view()
        leader = next(
            b for b in (seen.leader(topic, p) for p in range(PARTITIONS)) if b != seen.controller_id
        )
        began = time.perf_counter()
        harmed.network.unplug(host(leader))
        harmed.wait(lambda seen: led_by_others(seen, topic, PARTITIONS, leader))
        load.wait_progress()
        report(record_property, "F08 leader isolated", load.longest_gap_s(began))
        healed = time.perf_counter()
        harmed.network.heal()
        harmed.wait_whole()
        harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
        report(record_property, "F08 it is back", load.longest_gap_s(healed))
    harmed.verify(load)


def led_by(seen, topic: str, *brokers: int) -> list[int]:
    return [p for p in range(PARTITIONS) if seen.leader(topic, p) in brokers]
