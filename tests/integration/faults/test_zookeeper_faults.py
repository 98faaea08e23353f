"""ZooKeeper expires a session, or loses its leader, its majority, or all servers: records flow all the while."""

import time

from tests.integration.faults.ensemble import SERVERS
from tests.integration.faults.harmed_cluster import PARTITIONS, HarmedCluster
from tests.integration.faults.load import Load, report


def test_sessions_expire_while_all_is_well(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F10: a broker's, then the controller's; each registers again in a new session."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        seen = harmed.wait_whole()
        other = next(b for b in (seen.leader(topic, p) for p in range(PARTITIONS)) if b != seen.controller_id)
        for broker in (other, seen.controller_id):
            epoch = harmed.view().descriptions[broker]["broker_epoch"]
            began = time.perf_counter()
            harmed.expire_session(broker)
            harmed.wait(
                lambda seen, broker=broker, epoch=epoch: (
                    seen.descriptions[broker].get("broker_epoch", epoch) > epoch
                )
            )
            harmed.wait_whole()
            harmed.wait_in_sync(topic, PARTITIONS)
            load.wait_progress()
            who = "controller" if broker != other else "broker"
            report(record_property, f"F10 session of a {who} expired", load.longest_gap_s(began))
    harmed.verify(load)


def test_zookeepers_leader_dies(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F11: the others elect one before any session expires."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        began = time.perf_counter()
        dead = harmed.ensemble.leader()
        harmed.ensemble.kill(dead)
        harmed.create_topic(f"{topic}-meanwhile")
        load.wait_progress()
        harmed.ensemble.start(dead)
        harmed.wait_whole()
        report(record_property, "F11 ZooKeeper's leader killed", load.longest_gap_s(began))
    harmed.verify(load)


def test_zookeeper_restarts(harmed: HarmedCluster, topic: str, record_property) -> None:
    """F11: no majority, then nothing at all, for longer than a session; leaders serve on, and then all is as before."""
    with Load(harmed.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_progress()
        began = time.perf_counter()
        harmed.ensemble.kill(*SERVERS[:2])
        harmed.wait_sessions_doubtful()
        load.wait_progress()
        harmed.ensemble.kill(SERVERS[2])
        load.wait_progress()
        harmed.ensemble.start(*SERVERS)
        harmed.wait_whole()
        harmed.wait_in_sync(topic, PARTITIONS)
        harmed.create_topic(f"{topic}-afterwards")
        load.wait_progress()
        report(record_property, "F11 ZooKeeper restarted", load.longest_gap_s(began))
    harmed.verify(load)
