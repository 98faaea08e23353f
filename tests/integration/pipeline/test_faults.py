"""Exactly once, while drivers, workers and brokers are killed; and clear failures when a topic has changed."""

import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.testing import Cluster
from ottla.testing.ports import free_port_block
from pipeline.failure import JobError, explain
from pipeline.jobs import ingest, publish
from pipeline.options import arguments_of
from pipeline.spark_submit import QUICK_JVM, RunningJob, SparkOptions, spark_environment, spark_home
from pipeline.versions import KAFKA
from tests.conftest import Topics
from tests.integration.pipeline.conftest import Sender, receive, send
from tests.patience import until

RECORDS = 60_000
PARTITIONS = 3


@pytest.fixture(scope="module")
def frail(tmp_path_factory) -> Iterator[Cluster]:
    """A cluster to harm."""
    with Cluster.up(tmp_path_factory.mktemp("frail") / "data", brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(frail, request) -> str:
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
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


def require_each_once(spark, config, acknowledged: list[bytes | None]) -> None:
    """Compare the table with what was acknowledged, key by key."""
    found = Counter(bytes(row.key) for row in spark.read.parquet(config.table).select("key").collect())
    expected = Counter(acknowledged)
    assert sorted((expected - found).items())[:5] == [], "acknowledged, and not in the table"
    assert sorted((found - expected).items())[:5] == [], "more often in the table than in the topic"


def submitted(config, master="local[2]", job: str = "ingest", **conf: str) -> RunningJob:
    settings = {"spark.driver.extraJavaOptions": QUICK_JVM, **conf}
    return RunningJob(job, arguments_of(config), SparkOptions(master=master, conf=settings), [KAFKA])


def test_driver_killed(spark, frail, topic, said, tmp_path) -> None:
    acknowledged = send(frail.bootstrap_servers, topic, numbered(0, RECORDS))
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
    assert len(acknowledged) == RECORDS
    require_each_once(spark, config, acknowledged)


def alive_workers(port: int) -> int:
    """Return how many workers a master counts; 0 while it does not answer yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=60) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


@contextmanager
def standalone_spark(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Run a master and two workers as processes; return the master's address and the workers."""
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
            size = ("-c", "1", "-m", "1g", "-d", str(folder / f"worker-{number}"))
            start(f"worker-{number}", f"{deploy}.worker.Worker", "--host", "127.0.0.1", *size, address)
        until(lambda: alive_workers(port + 1) == 2)
        yield address, processes[1:]
    finally:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def test_worker_killed(spark, frail, topic, tmp_path) -> None:
    acknowledged = send(frail.bootstrap_servers, topic, numbered(0, RECORDS))
    config = config_for(frail, topic, tmp_path)
    batches, results = [], []
    with standalone_spark(tmp_path) as (address, workers):
        small = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JVM,
            # Both workers have registered before the first batch.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }
        with submitted(config, address, **small) as running:

            def show(kind, values) -> None:
                batches.extend([values] if kind == "progress" else [])
                results.extend([values] if kind == "result" else [])
                if len(batches) == 3 and workers[0].poll() is None:
                    # The worker's executors are in its session: all of them go.
                    os.killpg(workers[0].pid, signal.SIGKILL)
                    workers[0].wait()

            assert running.follow(show) == 0
    assert workers[0].returncode == -signal.SIGKILL
    assert results[0]["rows"] == RECORDS
    require_each_once(spark, config, acknowledged)


def test_leader_killed(spark, frail, topic, said, tmp_path) -> None:
    """The leader dies while records come in and are read."""
    acknowledged = send(frail.bootstrap_servers, topic, numbered(0, RECORDS // 2))
    config = config_for(frail, topic, tmp_path)
    killed, senders = [], []

    def on_message(kind, values) -> None:
        if kind == "progress" and not killed:
            more = numbered(RECORDS // 2, RECORDS // 2)
            senders.append(Sender(frail.bootstrap_servers, topic, more))
            killed.append(frail.view().leader(topic, 0))
            frail.kill(killed[0])

    said.on_message = on_message
    try:
        ingest.run(spark, config, said, said.stop)
        acknowledged += senders[0].wait()
        ingest.run(spark, config, said, said.stop)
    finally:
        frail.start(*killed)
    assert len(acknowledged) == RECORDS
    require_each_once(spark, config, acknowledged)


def create_when_gone(frail, topic: str) -> None:
    """Create a topic as soon as the deletion of its namesake is complete."""

    def is_created() -> bool:
        try:
            Topics(frail.bootstrap_servers).create([topic], PARTITIONS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    until(is_created)


def test_topic_made_again(spark, frail, topic, said, tmp_path) -> None:
    """The new topic is longer than the old one was: the offsets alone do not show the change."""
    send(frail.bootstrap_servers, topic, numbered(0, 300))
    made_again = []

    def on_message(kind, values) -> None:
        if kind == "progress" and not made_again:
            made_again.append(True)
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            admin.delete_topics([topic])[topic].result(60)
            create_when_gone(frail, topic)
            send(frail.bootstrap_servers, topic, numbered(0, 3000))

    said.on_message = on_message
    config = config_for(frail, topic, tmp_path, once=False, trigger_s=0.5)
    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, config, said, said.stop)
    line = explain(caught.value)
    assert "deleted" in line
    # A job that is started again also reports it, before it reads anything.
    with pytest.raises(JobError, match="deleted and made again"):
        ingest.run(spark, config, said, said.stop)


def test_retention_overtakes(spark, frail, topic, said, tmp_path) -> None:
    # Small batches on both sides, and slow ones on ours, so that Spark has not read what is about to be deleted.
    send(frail.bootstrap_servers, topic, numbered(0, 3000), **{"batch.num.messages": 20})
    small = {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": "1000"}
    config = config_for(
        frail, topic, tmp_path, once=False, offsets_per_batch=300, trigger_s=2, kafka_config=small
    )
    deleted = []

    def on_message(kind, values) -> None:
        if kind == "progress" and not deleted:
            deleted.append(True)
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            for future in admin.delete_records(
                [TopicPartition(topic, p, 900) for p in range(PARTITIONS)]
            ).values():
                future.result(60)

    said.on_message = on_message
    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, config, said, said.stop)
    assert "records are gone from the topic before they were read" in explain(caught.value)


def test_partitions_added(spark, frail, topic, said, tmp_path) -> None:
    acknowledged = send(frail.bootstrap_servers, topic, numbered(0, 300))
    rows = []

    def on_message(kind, values) -> None:
        if kind != "progress":
            return
        rows.append(values["rows"])
        if len(rows) == 1:
            admin = AdminClient({"bootstrap.servers": frail.bootstrap_servers})
            admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(60)
            Topics(frail.bootstrap_servers).wait_served(
                [TopicPartition(topic, p) for p in range(PARTITIONS + 2)]
            )
            more = [
                {**record, "partition": PARTITIONS + i % 2} for i, record in enumerate(numbered(300, 300))
            ]
            acknowledged.extend(send(frail.bootstrap_servers, topic, more))
        if sum(rows) == 600:
            said.stop.request()

    said.on_message = on_message
    config = config_for(frail, topic, tmp_path, once=False, trigger_s=0.5)
    ingest.run(spark, config, said, said.stop)
    assert len(acknowledged) == 600
    require_each_once(spark, config, acknowledged)
    assert spark.read.parquet(config.table).select("partition").distinct().count() == PARTITIONS + 2


FILES = 8
ROWS_OF_A_FILE = 20_000


def publication(frail, topic, tmp_path, **values) -> publish.PublishConfig:
    """Write files of numbers; return the settings of the job that publishes them in transactions."""
    (tmp_path / "files").mkdir()
    for number in range(FILES):
        rows = range(number * ROWS_OF_A_FILE, (number + 1) * ROWS_OF_A_FILE)
        (tmp_path / "files" / f"{number:02}.json").write_text("".join(f'{{"id": {row}}}\n' for row in rows))
    return publish.PublishConfig(
        bootstrap_server=frail.bootstrap_servers, source=str(tmp_path / "files"), source_format="json",
        schema="id BIGINT", topic=topic, key="id", value="id", checkpoint=str(tmp_path / "checkpoint"),
        files_per_batch=2, transactional=True, **values,
    )  # fmt: skip


def require_each_published_once(frail, topic) -> None:
    """Compare the committed records with the contents of the files."""
    messages = receive(frail.bootstrap_servers, topic, PARTITIONS, **{"isolation.level": "read_committed"})
    found = Counter(int(message.value()) for message in messages)
    expected = Counter(range(FILES * ROWS_OF_A_FILE))
    assert sorted((expected - found).items())[:5] == [], "not in the topic"
    assert sorted((found - expected).items())[:5] == [], "more than once in the topic"


@pytest.mark.parametrize(("batches_before", "open_before"), [(0, 1), (1, 2)])
def test_publishing_driver_killed(spark, frail, topic, said, tmp_path, batches_before, open_before) -> None:
    """The driver dies in the middle of a batch: some writers have committed, some have a transaction open."""
    config = publication(frail, topic, tmp_path, once=False, trigger_s=0.1)
    batches, hits = [], []
    with submitted(config, job="publish") as running:

        def kill() -> None:
            try:
                until(lambda: len(batches) >= batches_before and ongoing(frail) >= open_before, 200)
                hits.append(ongoing(frail))
            finally:
                running.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(JobError):
            running.follow(lambda kind, values: batches.extend([values] if kind == "progress" else []))
        killer.join()
    assert hits
    publish.run(spark, replace(config, once=True), said, said.stop)
    require_each_published_once(frail, topic)


def ongoing(frail) -> int:
    """Count the transactions that are open."""
    return sum(
        description["transactions"]["states"].get("Ongoing", 0)
        for description in frail.view().descriptions.values()
    )


def test_leaders_killed_while_publishing(spark, frail, topic, said, tmp_path) -> None:
    config = publication(frail, topic, tmp_path)
    killed: list[int] = []

    def on_message(kind, values) -> None:
        if kind == "progress":
            while killed:
                frail.start(killed.pop())
            killed.append(frail.view().leader(topic, values["batch"] % PARTITIONS))
            frail.kill(killed[0])

    said.on_message = on_message
    try:
        publish.run(spark, config, said, said.stop)
    finally:
        frail.start(*killed)
    assert len(said.of("progress")) == FILES // 2
    require_each_published_once(frail, topic)
