"""Brokers that are paused for longer than their session and then go on, unaware that time has passed."""

import time

from tests.integration.faults.harmed_cluster import (
    PARTITIONS,
    HarmedCluster,
    active_controllers,
    led_by_others,
)
from tests.integration.faults.load import Load, report


def test_a_leader_is_paused(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F03: it wakes up as a leader of a past epoch, with requests still in progress."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.view()
        zombie = next(
            b for b in (seen.leader(topic, p) for p in range(PARTITIONS)) if b != seen.controller_id
        )
        began = time.perf_counter()
        harmed.pause(zombie)
        harmed.wait(lambda seen: led_by_others(seen, topic, PARTITIONS, zombie))
        load.wait_progress()
        report(record_property, "F03 leader paused", load.longest_gap_s(began))
        resumed = time.perf_counter()
        harmed.resume(zombie)
        harmed.wait_whole()
        harmed.wait_in_sync(topic, PARTITIONS)
        load.wait_progress()
        report(record_property, "F03 leader goes on", load.longest_gap_s(resumed))
    harmed.verify(load)


def test_the_controller_is_paused(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F04: another one is elected, and the former one resigns before it does anything."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        former = harmed.wait_whole().controller_id
        began = time.perf_counter()
        harmed.pause(former)
        harmed.wait(lambda seen: active_controllers(seen) not in ([], [former]))
        harmed.wait(lambda seen: led_by_others(seen, topic, PARTITIONS, former))
        load.wait_progress()
        report(record_property, "F04 controller paused", load.longest_gap_s(began))
        harmed.resume(former)
        assert harmed.wait_whole().controller_id != former
        harmed.wait_in_sync(topic, PARTITIONS)
        harmed.create_topic(f"{topic}-afterwards")
        load.wait_progress()
    harmed.verify(load)
