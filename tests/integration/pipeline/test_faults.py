"""Exactly once, while drivers, workers and brokers are killed; and clear failures where a topic is not what it was."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.testing import Cluster
from ottla.testing.ports import free_port_block
from pipeline.failure import JobError, explain
from pipeline.jobs import ingest
from pipeline.options import arguments_of
from pipeline.spark_submit import QUICK_JVM, RunningJob, SparkOptions, spark_environment, spark_home
from pipeline.versions import KAFKA
from tests.conftest import Topics
from tests.integration.pipeline.conftest import send

RECORDS = 60_000
PARTITIONS = 3


@pytest.fixture(scope="module")
def frail(tmp_path_factory) -> Iterator[Cluster]:
    """A cluster to harm."""
    with Cluster.up(tmp_path_factory.mktemp("frail") / "data", brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(frail, request) -> str:
    name = request.node.name.removeprefix("test_")
    Topics(frail.bootstrap_servers).create([name], PARTITIONS, min_insync_replicas="2")
    return name


def numbered(first: int, count: int) -> list[dict]:
    return [
        {"key": b"%d" % n, "value": b"x" * 80, "partition": n % PARTITIONS}
        for n in range(first, first + count)
    ]


def config_for(frail, topic, tmp_path, **values) -> ingest.IngestConfig:
    given = {"partition_by": "none", "once": True, "offsets_per_batch": 6_000}
    return ingest.IngestConfig(
        bootstrap_server=frail.bootstrap_servers,
        topic=(topic,),
        table=str(tmp_path / "table"),
        **{**given, **values},
    )


def require_each_once(spark, config, count: int) -> None:
    """Compare the table with what was acknowledged: the keys 0 to count, each once."""
    rows = spark.read.parquet(config.table).selectExpr("cast(cast(key as string) as int) as n")
    found = rows.selectExpr("count(n)", "count(distinct n)", "min(n)", "max(n)").first()
    assert tuple(found) == (count, count, 0, count - 1)


def submitted(config, master="local[2]", **conf: str) -> RunningJob:
    settings = {"spark.driver.extraJavaOptions": QUICK_JVM, **conf}
    return RunningJob("ingest", arguments_of(config), SparkOptions(master=master, conf=settings), [KAFKA])


def test_driver_killed(spark, frail, topic, said, tmp_path) -> None:
    send(frail.bootstrap_servers, topic, numbered(0, RECORDS))
    config = config_for(frail, topic, tmp_path)
    batches = []
    with submitted(config) as running:

        def show(kind, values) -> None:
            batches.extend([values] if kind == "progress" else [])
            if len(batches) >= 3 and running.is_running:
                running.kill()

        with pytest.raises(JobError):
            running.follow(show)
    assert 3 <= len(batches) < RECORDS // 6_000
    ingest.run(spark, config, said, said.stop)
    assert said.of("progress")[0]["batch"] >= 2
    require_each_once(spark, config, RECORDS)


@contextmanager
def standalone_spark(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A master and two workers as processes; gives the master's address and the workers."""
    port = free_port_block(2)
    environment = {
        **spark_environment("local"),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    launch = [str(spark_home() / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    at = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(port + 1))
    processes: list[subprocess.Popen] = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as output:
            processes.append(
                subprocess.Popen(
                    [*launch, *arguments],
                    env=environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    try:
        start("master", f"{deploy}.master.Master", *at)
        for number in range(2):
            work = str(folder / f"worker-{number}")
            start(
                f"worker-{number}",
                f"{deploy}.worker.Worker",
                "--host",
                "127.0.0.1",
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                work,
                address,
            )
        yield address, processes[1:]
    finally:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def test_worker_killed(spark, frail, topic, tmp_path) -> None:
    send(frail.bootstrap_servers, topic, numbered(0, RECORDS))
    config = config_for(frail, topic, tmp_path)
    batches, results = [], []
    with standalone_spark(tmp_path) as (address, workers):
        small = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": QUICK_JVM}
        with submitted(config, address, **small) as running:

            def show(kind, values) -> None:
                batches.extend([values] if kind == "progress" else [])
                results.extend([values] if kind == "result" else [])
                if len(batches) == 3 and workers[0].poll() is None:
                    # The worker's executors are in its session: all of them go.
                    os.killpg(workers[0].pid, signal.SIGKILL)
                    workers[0].wait()

            assert running.follow(show) == 0
    assert results[0]["rows"] == RECORDS
    require_each_once(spark, config, RECORDS)


def test_leader_killed(spark, frail, topic, said, tmp_path) -> None:
    send(frail.bootstrap_servers, topic, numbered(0, RECORDS // 2))
    config = config_for(frail, topic, tmp_path)
    killed = []

    def on_message(kind, values) -> None:
        if kind == "progress" and not killed:
            killed.append(frail.view().leader(topic, 0))
            frail.kill(killed[0])

    said.on_message = on_message
    try:
        ingest.run(spark, config, said, said.stop)
        send(frail.bootstrap_servers, topic, numbered(RECORDS // 2, RECORDS // 2))
        ingest.run(spark, config, said, said.stop)
    finally:
        frail.start(*killed)
    require_each_once(spark, config, RECORDS)


def create_when_gone(frail, topic: str) -> None:
    """Make a topic as soon as the deletion of its namesake is through."""
    for _attempt in range(600):
        try:
            Topics(frail.bootstrap_servers).create([topic], PARTITIONS)
            return
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            select.select([], [], [], 0.1)
    raise AssertionError(f"{topic} is not deleted")


def test_topic_made_again(spark, frail, topic, said, tmp_path) -> None:
    """The new topic is longer than the old one was: by its offsets alone nobody would notice."""
    send(frail.bootstrap_servers, topic, numbered(0, 300))
    made_again = []

    def on_message(kind, values) -> None:
        if kind == "progress" and not made_again:
            made_again.append(True)
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            admin.delete_topics([topic])[topic].result(30)
            create_when_gone(frail, topic)
            send(frail.bootstrap_servers, topic, numbered(0, 3000))

    said.on_message = on_message
    config = config_for(frail, topic, tmp_path, once=False, trigger_s=0.5)
    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, config, said, said.stop)
    line = explain(caught.value)
    assert "deleted" in line
    # And a job that is started anew says so before it reads anything.
    with pytest.raises(JobError, match="deleted and made again"):
        ingest.run(spark, config, said, said.stop)


def test_retention_overtakes(spark, frail, topic, said, tmp_path) -> None:
    # Small batches on both sides, so that Spark has not fetched what is about to go.
    send(frail.bootstrap_servers, topic, numbered(0, 3000), **{"batch.num.messages": 20})
    small = {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": "1000"}
    config = config_for(
        frail, topic, tmp_path, once=False, offsets_per_batch=300, trigger_s=0.5, kafka_config=small
    )
    deleted = []

    def on_message(kind, values) -> None:
        if kind == "progress" and not deleted:
            deleted.append(True)
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            for future in admin.delete_records(
                [TopicPartition(topic, p, 900) for p in range(PARTITIONS)]
            ).values():
                future.result(30)

    said.on_message = on_message
    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, config, said, said.stop)
    assert "records are gone from the topic before they were read" in explain(caught.value)


def test_partitions_added(spark, frail, topic, said, tmp_path) -> None:
    send(frail.bootstrap_servers, topic, numbered(0, 300))
    rows = []

    def on_message(kind, values) -> None:
        if kind != "progress":
            return
        rows.append(values["rows"])
        if len(rows) == 1:
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(30)
            Topics(frail.bootstrap_servers).wait_served(
                [TopicPartition(topic, p) for p in range(PARTITIONS + 2)]
            )
            more = [
                {**record, "partition": PARTITIONS + i % 2} for i, record in enumerate(numbered(300, 300))
            ]
            send(frail.bootstrap_servers, topic, more)
        if sum(rows) == 600:
            said.stop.request()

    said.on_message = on_message
    config = config_for(frail, topic, tmp_path, once=False, trigger_s=0.5)
    ingest.run(spark, config, said, said.stop)
    require_each_once(spark, config, 600)
    assert spark.read.parquet(config.table).select("partition").distinct().count() == PARTITIONS + 2
