"""Brokers that die: with and without a guardian that notices, leaders and followers, and back within the session."""

import time

from tests.integration.faults.harmed_cluster import BROKERS, PARTITIONS, HarmedCluster, led_by_others
from tests.integration.faults.load import Load, report


def test_hosts_of_leaders_die_in_turn(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F01: their guardians die with them, and the brokers that are left close their sessions."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        for broker in BROKERS[:2]:
            load.wait_progress()
            began = time.perf_counter()
            harmed.kill(broker, host=True)
            harmed.wait(lambda seen, dead=broker: led_by_others(seen, topic, PARTITIONS, dead))
            load.wait_progress()
            report(record_property, f"F01 host of broker {broker} killed", load.longest_gap_s(began))
            harmed.start(broker)
            harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
    harmed.verify(load)


def test_a_follower_dies(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F02: with acks=all its death is a gap for the partitions whose ISR it is in, and not an error."""
    with Load(harmed.bootstrap_servers, topic, 1) as load:
        load.wait_progress()
        seen = harmed.view()
        follower = max(set(BROKERS) - {seen.leader(topic, 0), seen.controller_id})
        began = time.perf_counter()
        harmed.kill(follower)
        harmed.wait(lambda seen: follower not in seen.isr(topic, 0) and len(seen.isr(topic, 0)) == 2)
        load.wait_progress()
        report(record_property, "F02 follower killed", load.longest_gap_s(began))
        harmed.start(follower)
        harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
    harmed.verify(load)


def test_a_broker_bounces_within_its_session(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F24: killed with its guardian and started at once, twice; it is not mistaken for the old process."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        for turn in range(2):
            load.wait_progress()
            seen = harmed.view()
            broker = seen.leader(topic, 0)
            epoch = seen.descriptions[broker]["broker_epoch"]
            began = time.perf_counter()
            harmed.kill(broker, host=True)
            harmed.start(broker)
            harmed.wait_in_sync(topic, PARTITIONS)
            assert harmed.view().descriptions[broker]["broker_epoch"] > epoch
            load.wait_progress()
            report(record_property, f"F24 bounce {turn + 1}", load.longest_gap_s(began))
    harmed.verify(load)
