"""Brokers leave and come back: by controlled shutdown under load, within their session, and with an empty disk."""

import shutil
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.integration.faults.load import Load, report
from tests.integration.operations.operating import BROKERS, Operator, check_history
from wire.types import TopicPartition


def test_a_rolling_restart_fails_no_request(operator: Operator, record_property) -> None:
    cluster = operator.cluster
    replicas = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)}
    operator.place("rolling", *replicas.values())
    with Load(cluster.bootstrap_servers, "rolling", 3) as load:
        load.wait_progress()
        for broker in BROKERS:
            stopped_at = time.perf_counter()
            cluster.stop(broker)
            load.wait_progress()
            cluster.start(broker)
            cluster.wait_in_sync("rolling", 3)
            report(record_property, f"broker {broker} restarted", load.longest_gap_s(stopped_at))
            operator.run("preferred-leader-election", "--topic", "rolling")
            load.wait_progress()
    # The load fails the test if a record failed after all retries: that is "zero failed requests".
    check_history(cluster, load, replicas)


def test_a_fast_bounce_within_the_session(operator: Operator, record_property) -> None:
    cluster = operator.cluster
    replicas = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)}
    operator.place("bounced", *replicas.values())
    with Load(cluster.bootstrap_servers, "bounced", 3) as load:
        load.wait_progress()
        for turn in range(2):
            killed_at = time.perf_counter()
            # Nobody closes the session: the broker is back while its old registration still stands.
            cluster.kill(1, host=True)
            cluster.start(1)
            load.wait_progress()
            report(record_property, f"bounce {turn}", load.longest_gap_s(killed_at))
    check_history(cluster, load, replicas)


def test_an_empty_disk_under_an_old_id_never_leads(operator: Operator) -> None:
    cluster = operator.cluster
    replicas = {0: (2, 0, 1), 1: (0, 1, 2)}
    operator.place("refilled", *replicas.values())
    operator.place("single", (2,))
    produce_one(cluster.bootstrap_servers, "single")
    with Load(cluster.bootstrap_servers, "refilled", 2) as load:
        load.wait_progress()
        cluster.kill(2)
        shutil.rmtree(Path(cluster.broker(2)["directory"]) / "logs")
        load.wait_progress()
        cluster.start(2)
        load.wait_progress()
        cluster.wait_in_sync("refilled", 2)
    check_history(cluster, load, replicas)
    # Partitions that only the lost disk had are offline; a leader with an empty log would hide the loss.
    assert cluster.view().leader("single", 0) == -1
    found = operator.run("get-offsets", "--topic-partitions", "single:0", "--timeout", "1000", expect=1)
    assert found == []
    operator.run("topics", "--delete", "--topic", "single")


def produce_one(bootstrap: str, topic: str) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, b"precious", partition=0, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(60) == 0
    assert outcomes == [None], TopicPartition(topic, 0)
