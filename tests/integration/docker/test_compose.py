"""The walk-through of deploy/README.md on a real Docker engine: what it says is what happens, and no record is lost."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.replica_files import replica_records
from tests.integration.docker.composed import BROKERS, ComposedCluster, wait_until
from tests.integration.faults.load import Load, mark_of, read_all, report
from wire.types import TopicPartition as Place

TOPIC = "flights"
PARTITIONS = 3
SIZE_BYTES_MAX = 400_000_000

pytestmark = pytest.mark.needs("Docker")


def all_in_sync(partitions) -> bool:
    return all(sorted(each["isr"]) == list(BROKERS) for each in partitions.values())


def led_without(broker: int):
    return lambda found: all(each["leader"] not in (None, broker) for each in found.values())


def reassign(cluster: ComposedCluster, folder: Path, replicas: dict[int, list[int]]) -> None:
    """Carry out a reassignment with the command of the walk-through, which waits for its end."""
    file = folder / "move.json"
    moves = [{"topic": TOPIC, "partition": p, "replicas": chosen} for p, chosen in replicas.items()]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    cluster.ottla("reassign-partitions", "--execute", "--reassignment-json-file", file)
    cluster.ottla("reassign-partitions", "--verify", "--reassignment-json-file", file)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ComposedCluster]:
    with pytest.MonkeyPatch.context() as monkeypatch, ComposedCluster(monkeypatch) as cluster:
        yield cluster


def test_the_walk_of_the_readme(cluster: ComposedCluster, tmp_path: Path, record_property) -> None:
    with cluster.logs_on_failure():
        cluster.wait_healthy()
        assert cluster.size_bytes() < SIZE_BYTES_MAX
        cluster.ottla(
            *("topics", "--create", "--topic", TOPIC, "--partitions", str(PARTITIONS)),
            *("--replication-factor", "3"),
        )
        cluster.wait_partitions(TOPIC, all_in_sync, "the new topic is in sync")
        with Load(cluster.bootstrap_servers, TOPIC, PARTITIONS) as load:
            load.wait_progress()
            # Containers reach every broker by the addresses that metadata has.
            inside = cluster.ottla_inside(
                1, "get-offsets", "--bootstrap-server", "broker-2:9092", "--topic", TOPIC
            )
            assert inside.count(TOPIC) == PARTITIONS
            a_container_is_killed(cluster, load, record_property)
            a_broker_dies_in_its_container(cluster, load, record_property)
            a_broker_is_stopped(cluster, load, record_property)
            partitions_move(cluster, load, tmp_path)
            leaders_come_home(cluster, load)
        a_broker_joins_by_its_environment(cluster)
        nothing_is_lost(cluster, load, tmp_path)


def test_the_secured_profile(cluster: ComposedCluster, tmp_path: Path) -> None:
    """The generated files work as they are, nobody else gets in, and the death of a broker is survived."""
    with cluster.logs_on_failure():
        folder = cluster.start_secured(tmp_path / "host")

        def run(*command: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
            )

        def topics(*arguments: str) -> "subprocess.CompletedProcess[str]":
            ottla = str(Path(sys.executable).parent / "ottla")
            return run(ottla, "topics", "--bootstrap-server", cluster.secured_servers, *arguments)

        greets = (sys.executable, "security/user.py")
        done = run(*greets)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        admin = ("--command-config", "security/admin.properties")
        described = json.loads(topics(*admin, "--describe", "--topic", "greetings", "--json").stdout)
        ((partition,),) = (each["partitions"] for each in described)
        assert sorted(partition["replicas"]) == list(BROKERS)
        assert topics("--list").returncode != 0
        refused = topics("--command-config", "security/user.properties", "--delete", "--topic", "greetings")
        assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr
        cluster.kill_secured(partition["leader"])
        done = run(*greets)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def a_container_is_killed(cluster: ComposedCluster, load: Load, record_property) -> None:
    dead = cluster.partitions(TOPIC)[0]["leader"]
    killed_at = time.perf_counter()
    cluster.kill(dead)
    cluster.wait_partitions(TOPIC, led_without(dead), f"other leaders than {dead}")
    load.wait_progress()
    report(record_property, "container killed", load.longest_gap_s(killed_at))
    cluster.start(dead)
    cluster.wait_healthy()
    cluster.wait_partitions(TOPIC, all_in_sync, f"broker {dead} in sync again")


def a_broker_dies_in_its_container(cluster: ComposedCluster, load: Load, record_property) -> None:
    """The guardian ends its session at once, and the restart policy brings it back."""
    dead = cluster.partitions(TOPIC)[1]["leader"]
    before = cluster.restarts(dead)
    killed_at = time.perf_counter()
    cluster.crash_inside(dead)
    load.wait_progress()
    report(record_property, "broker killed inside its container", load.longest_gap_s(killed_at))
    wait_until(lambda: cluster.restarts(dead) == before + 1, f"broker {dead} started again")
    cluster.wait_healthy()
    cluster.wait_partitions(TOPIC, all_in_sync, f"broker {dead} in sync again")


def a_broker_is_stopped(cluster: ComposedCluster, load: Load, record_property) -> None:
    """SIGTERM to process 1 is a controlled shutdown."""
    chosen = cluster.partitions(TOPIC)[2]["leader"]
    stopped_at = time.perf_counter()
    assert cluster.stop(chosen) == 0
    load.wait_progress()
    report(record_property, "broker stopped", load.longest_gap_s(stopped_at))
    assert "every leader has moved to another broker" in cluster.log(chosen)
    cluster.start(chosen)
    cluster.wait_healthy()
    cluster.wait_partitions(TOPIC, all_in_sync, f"broker {chosen} in sync again")


def partitions_move(cluster: ComposedCluster, load: Load, folder: Path) -> None:
    reassign(cluster, folder, {0: [2, 3]})
    assert cluster.partitions(TOPIC)[0]["replicas"] == [2, 3]
    load.wait_progress()
    reassign(cluster, folder, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_partitions(TOPIC, all_in_sync, "all replicas in sync after the moves")
    load.wait_progress()


def leaders_come_home(cluster: ComposedCluster, load: Load) -> None:
    cluster.ottla("preferred-leader-election")
    cluster.wait_partitions(
        TOPIC,
        lambda found: all(each["leader"] == each["replicas"][0] for each in found.values()),
        "preferred leaders",
    )
    load.wait_progress()


def a_broker_joins_by_its_environment(cluster: ComposedCluster) -> None:
    with cluster.another_broker(4):
        described = json.loads(
            cluster.ottla_inside(1, "cluster", "describe", "--bootstrap-server", "broker-4:9092", "--json")
        )
        assert sorted(each["id"] for each in described["brokers"]) == [*BROKERS, 4]


def nothing_is_lost(cluster: ComposedCluster, load: Load, folder: Path) -> None:
    cluster.wait_partitions(TOPIC, all_in_sync, "in sync at the end")
    read_all(cluster.bootstrap_servers, load)
    for broker in BROKERS:
        assert cluster.stop(broker) == 0
        logs = cluster.copy_logs(broker, folder / f"broker-{broker}")
        for partition in range(PARTITIONS):
            place = Place(TOPIC, partition)
            marks = ((r.offset, mark_of(r.value)) for r in replica_records(logs, place))
            load.history.read(f"replica {broker}", place, marks)
    load.history.check()
    print(f"{load.history.acknowledged_count} records were acknowledged, and kept")
