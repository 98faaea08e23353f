"""Compacted topics of running brokers: the last value of each key stays, at its offset, on every replica alike."""

import contextlib
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.commands.main import main
from ottla.testing import Cluster
from ottla.testing.replica_files import replica_directory, replica_records
from storage.checkpoints import OffsetCheckpoint
from storage.disk import RealDisk
from tests.integration.operations.operating import BROKERS, Operator
from tests.integration.operations.test_verify_replicas import verify
from tests.patience import until
from wire import types

SEGMENT_BYTES = 16_384
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
Records = dict[int, tuple[bytes, bytes | None]]


@pytest.fixture(autouse=True)
def eager_cleaners(operator: Operator) -> Iterator[None]:
    """Make the cleaners check often."""
    defaults = ("configs", "--alter", "--broker-defaults")
    operator.run(*defaults, "--add-config", "log.cleaner.backoff.ms=200")
    yield
    operator.run(*defaults, "--delete-config", "log.cleaner.backoff.ms")


def configure(operator: Operator, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings; brokers apply them a moment later, so that the next batch can still have the former ones."""
    text = ",".join(f"{name}={value}" for name, value in settings.items())
    operator.run("configs", "--alter", "--topic", topic, "--add-config", text)


def write(cluster: Cluster, topic: str, records: int, keys: int) -> Records:
    """Overwrite keys, delete every fifth one, and roll the last segment; return what must be left, by offset."""
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 2,
            "batch.num.messages": 100,
        }
    )
    failures: list[object] = []

    def delivered(error: object, message: Any) -> None:
        if error is not None:
            failures.append(error)
            return
        if message.offset() > latest.get(message.key(), (-1, None))[0]:
            latest[message.key()] = message.offset(), message.value()

    for number in range(records):
        key = b"key-%d" % (number % keys)
        value = None if number >= records - keys and number % 5 == 0 else b"value %d" % number
        producer.produce(topic, value, key, 0, on_delivery=delivered)
        producer.poll(0)
    # The active segment is not cleaned: push the last records out of it with filler records of other keys.
    for number in range(SEGMENT_BYTES // 1000 + 2):
        producer.produce(topic, bytes(1000), b"filler-%d" % number, 0, on_delivery=delivered)
        producer.flush(60)
    assert producer.flush(60) == 0
    assert not failures
    return {offset: (key, value) for key, (offset, value) in latest.items()}


def consume(cluster: Cluster, topic: str) -> Records:
    """Read all that a consumer sees of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        place = TopicPartition(topic, 0)
        start, end = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([TopicPartition(topic, 0, start)])
        found: Records = {}
        while consumer.position([place])[0].offset < end:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                offset, key = message.offset(), message.key()
                assert offset is not None
                assert isinstance(key, bytes)
                found[offset] = key, message.value()  # type: ignore[assignment]
        return found
    finally:
        consumer.close()


def logs_of(cluster: Cluster, broker: int) -> Path:
    return Path(cluster.broker(broker)["directory"]) / "logs"


def on_disk(cluster: Cluster, broker: int, topic: str) -> Records:
    """Return the records in a replica's files; empty if a file vanishes meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return {
            record.offset: (record.key or b"", record.value)
            for record in replica_records(logs_of(cluster, broker), types.TopicPartition(topic, 0))
        }
    return {}


def is_running(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def workers_of(pid: int) -> list[int]:
    """Return the running child processes of a broker."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [child for child in children if is_running(child)]


def test_the_last_value_of_each_key_is_left_on_every_replica(
    operator: Operator, kafka_java: list[str]
) -> None:
    cluster = operator.cluster
    operator.place("compacted", BROKERS, settings=TOPIC)
    expected = write(cluster, "compacted", records=3000, keys=40)
    assert sum(value is None for _, value in expected.values()) == 8
    for broker in BROKERS:
        until(lambda broker=broker: on_disk(cluster, broker, "compacted") == expected)  # type: ignore[misc]
    assert consume(cluster, "compacted") == expected
    cluster.wait(lambda seen: not any(d["cleaner"]["cleaning"] for d in seen.descriptions.values()))
    until(lambda: not any(workers_of(cluster.broker(broker)["pid"]) for broker in BROKERS))
    assert verify(cluster, "compacted")[0] == 0
    directory = replica_directory(logs_of(cluster, 0), types.TopicPartition("compacted", 0))
    files = ",".join(str(path) for path in sorted([*directory.glob("*.log"), *directory.glob("*index")]))
    dumped = subprocess.run(
        [*kafka_java, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", files],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert "baseOffset" in dumped
    for complaint in ("isvalid: false", "mismatch", "out of order", "no message found"):
        assert complaint not in dumped.lower()


def test_a_broker_killed_while_it_cleans_loses_nothing(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("interrupted", (0,), settings=TOPIC)
    rate = "log.cleaner.io.max.bytes.per.second"
    operator.run("configs", "--alter", "--broker", "0", "--add-config", f"{rate}=2000")
    try:
        expected = write(cluster, "interrupted", records=3000, keys=40)
        seen = cluster.wait(
            lambda seen: (
                "interrupted-0" in seen.descriptions.get(0, {}).get("cleaner", {}).get("cleaning", ())
            )
        )
        pid = seen.descriptions[0]["pid"]
        until(lambda: workers_of(pid))
        (worker,) = workers_of(pid)
        cluster.kill(0)
        until(lambda: not is_running(worker))
        cluster.start(0)
    finally:
        operator.run("configs", "--alter", "--broker", "0", "--delete-config", rate)
    found = consume(cluster, "interrupted")
    assert {offset: found.get(offset) for offset in expected} == expected
    until(lambda: on_disk(cluster, 0, "interrupted") == expected)
    assert consume(cluster, "interrupted") == expected


def test_a_damaged_log_is_named_and_the_others_are_cleaned(operator: Operator) -> None:
    cluster = operator.cluster
    for topic in ("spoilt", "sound"):
        operator.place(topic, (0,), settings=TOPIC | {"cleanup.policy": "delete"})
        expected = write(cluster, topic, records=1000, keys=20)
    directory = replica_directory(logs_of(cluster, 0), types.TopicPartition("spoilt", 0))
    segment = min(directory.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"value")] ^= 1
    segment.write_bytes(data)
    configure(operator, "spoilt", {"cleanup.policy": "compact"})
    seen = cluster.wait(lambda seen: "spoilt-0" in seen.descriptions[0]["cleaner"]["uncleanable"])
    assert "checksum" in seen.descriptions[0]["cleaner"]["uncleanable"]["spoilt-0"]
    configure(operator, "sound", {"cleanup.policy": "compact"})
    until(lambda: on_disk(cluster, 0, "sound") == expected)
    assert segment.read_bytes() == data
    dumped = CliRunner().invoke(main, ["dump-log", "--files", str(segment)])
    assert dumped.exit_code == 0
    assert dumped.stdout.count("isvalid: false") == 1
    port = seen.descriptions[0]["metrics_port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        metrics = answer.read().decode()
    assert 'kafka_log_logcleaner_uncleanable{partition="0",topic="spoilt"} 1.0' in metrics
    assert "kafka_log_logcleanermanager_uncleanable_partitions_count" in metrics


def test_committed_offsets_are_compacted(operator: Operator) -> None:
    cluster = operator.cluster
    operator.place("committed", BROKERS)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "compacting"})
    try:
        consumer.commit(offsets=[TopicPartition("committed", 0, 1)], asynchronous=False)
        configure(operator, "__consumer_offsets", TOPIC | {"segment.bytes": "2048"})
        for number in range(2, 60):
            consumer.commit(offsets=[TopicPartition("committed", 0, number)], asynchronous=False)

        def cleaned() -> set[str]:
            checkpoints = [
                OffsetCheckpoint(RealDisk(), str(logs_of(cluster, broker) / "cleaner-offset-checkpoint"))
                for broker in BROKERS
            ]
            return {
                partition.topic
                for checkpoint in checkpoints
                for partition, offset in checkpoint.read().items()
                if offset
            }

        until(lambda: "__consumer_offsets" in cleaned())
        (found,) = consumer.committed([TopicPartition("committed", 0)], timeout=60)
        assert found.offset == 59
    finally:
        consumer.close()
        operator.run(
            *("configs", "--alter", "--topic", "__consumer_offsets"),
            *("--delete-config", ",".join(name for name in TOPIC if name != "cleanup.policy")),
        )
