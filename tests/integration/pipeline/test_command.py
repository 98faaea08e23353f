"""The command itself: clear refusals, a clean stop on Ctrl-C, progress as a consumer group."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline.jobs import ingest
from pipeline.spark_submit import QUICK_JVM
from tests.integration.pipeline.conftest import send

OTTLA = (sys.executable, "-m", "ottla", "pipeline")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OTTLA, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def base(cluster, jars, tmp_path) -> list[str]:
    return [
        "ingest", "--bootstrap-server", cluster.bootstrap_servers, "--table", str(tmp_path / "table"),
        "--master", "local[1]", "--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}",
    ]  # fmt: skip


def test_a_missing_topic_is_one_line(base) -> None:
    done = run(*base, "--topic", "nowhere", "--once")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: topic nowhere does not exist on ")


def test_an_unreachable_cluster_is_one_line(jars, tmp_path) -> None:
    arguments = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--table", str(tmp_path / "table"))
    done = run("ingest", *arguments, "--once")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: the cluster at 127.0.0.1:1 cannot be reached")
    assert not (tmp_path / "table").exists()


def test_the_demo_leaves_topics_that_are_there_alone(cluster, make_topics, tmp_path) -> None:
    make_topics.create(["demo-flights"], partitions=1)
    done = run("demo", "--bootstrap-server", cluster.bootstrap_servers, "--output", str(tmp_path / "demo"))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: demo-flights is on ")
    assert line.endswith("--delete --topic demo-flights` first")
    assert not (tmp_path / "demo").exists()


def test_ctrl_c_stops_cleanly(spark, cluster, make_topics, base, tmp_path) -> None:
    make_topics.create(["stopped"], partitions=1)
    send(cluster.bootstrap_servers, "stopped", [{"value": b"v"}] * 100)
    command = [*OTTLA, *base, "--topic", "stopped", "--trigger-s", "0.5", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        messages = []
        for line in process.stdout:
            messages.append(json.loads(line))
            # Only once: a second signal would end it immediately.
            if [each["kind"] for each in messages].count("progress") == 1 and messages[-1][
                "kind"
            ] == "progress":
                process.send_signal(signal.SIGINT)
        stderr = process.stderr.read()
    assert (process.returncode, stderr) == (0, "")
    assert messages[-1] == {"kind": "result", "rows": 100, "dead_letters": 0, "batches": 1, "merged_files": 0}
    assert spark.read.parquet(str(tmp_path / "table")).count() == 100


def test_progress_is_a_groups_commits(spark, cluster, make_topics, said, tmp_path: Path) -> None:
    make_topics.create(["followed"], partitions=2)
    send(cluster.bootstrap_servers, "followed", [{"value": b"v", "partition": 0}] * 7)
    config = ingest.IngestConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=("followed",), table=str(tmp_path / "table"),
        progress_group="spark-followed", once=True,
    )  # fmt: skip
    ingest.run(spark, config, said, said.stop)
    assert said.of("warning") == []
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "spark-followed"})
    places = [TopicPartition("followed", p) for p in range(2)]
    assert [place.offset for place in consumer.committed(places, timeout=60)] == [7, 0]
    consumer.close()
