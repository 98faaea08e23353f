"""The mirror between Ottla and Apache Kafka, both ways: records unchanged, topics alike, groups translated."""

import json
import subprocess
import uuid
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client import connect
from ottla.client.admin import ConfigResource, ConfigSource, ResourceKind
from ottla.mirror.formats import Checkpoint, OffsetSync, checkpoints_topic, offset_syncs_topic
from tests.compat.client.conftest import Brokers, apache_kafka  # noqa: F401 - the fixture is used by name
from tests.integration.mirror.mirror_process import Mirror, rows_of
from tests.patience import until


@pytest.fixture(params=["ottla to apache", "apache to ottla"])
def sides(request: pytest.FixtureRequest) -> tuple[Brokers, Brokers]:
    """Source and target."""
    ottla = Brokers("ottla", request.getfixturevalue("cluster").bootstrap_servers, 3)
    apache = Brokers("apache", request.getfixturevalue("apache_kafka").bootstrap_servers, 1)
    return (ottla, apache) if request.param == "ottla to apache" else (apache, ottla)


def fill(brokers: Brokers, topic: str) -> None:
    """Send records of all kinds: compressed, with headers, nulls, and some of an aborted transaction."""
    for codec in ("none", "gzip", "zstd"):
        producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "compression.type": codec})
        for number in range(500):
            producer.produce(
                topic,
                None if number % 50 == 0 else b"%d %s" % (number, codec.encode()),
                b"key %d" % (number % 7),
                partition=number % 3,
                headers=[("n", b"%d" % number), ("null", None)] if number % 9 == 0 else None,
                timestamp=1_600_000_000_000 + number,
            )
        assert producer.flush(30) == 0
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, ends.__name__.encode(), b"key %d" % number, partition=number % 3)
        producer.flush(30)
        ends(30)


def test_records_topics_and_groups_arrive(sides: tuple[Brokers, Brokers], tmp_path: Path) -> None:
    source, target = sides
    topic = source.topic(3, retention_ms="98765432100000", min_insync_replicas="1")
    fill(source, topic)
    group = f"group-of-{topic}"
    consumer = Consumer({"bootstrap.servers": source.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, number, 100) for number in range(3)], asynchronous=False)
    consumer.close()
    aliases = (f"a{uuid.uuid4().hex[:6]}", f"b{uuid.uuid4().hex[:6]}")
    factor = "1" if target.kind == "apache" else "3"
    mirror = Mirror(
        tmp_path / "mirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        *("--include", topic, "--exactly-once", "--replication-factor", factor),
        *("--source-alias", aliases[0], "--target-alias", aliases[1]),
    )
    counted = mirror.run_to_end()
    assert counted["records"] == 1510, counted
    assert mirror.run_to_end()["records"] == 0

    async def compare() -> None:
        with trio.fail_after(60):
            async with connect(source.bootstrap_servers) as kafka:
                sent = await rows_of(kafka, topic)
                syncs = [
                    OffsetSync.decode(key, value)
                    for _, (key, value, *_) in (await rows_of(kafka, offset_syncs_topic(aliases[1])))[0]
                ]
            async with connect(target.bootstrap_servers) as kafka:
                found = await rows_of(kafka, topic)
                points = [
                    Checkpoint.decode(key, value)
                    for _, (key, value, *_) in (await rows_of(kafka, checkpoints_topic(aliases[0])))[0]
                ]
            assert {n: [row for _, row in rows] for n, rows in found.items()} == {
                n: [row for _, row in rows] for n, rows in sent.items()
            }
            assert {sync.place.partition for sync in syncs} == {0, 1, 2}
            mine = {point.place.partition: point for point in points if point.group == group}
            for number, rows in sent.items():
                wanted = next(row for at, row in rows if at >= 100)
                assert next(row for at, row in found[number] if at >= mine[number].downstream) == wanted
                assert mine[number].upstream == 100
            async with connect(target.bootstrap_servers) as kafka:
                committed = await kafka.admin.committed_offsets(group)
                assert {place.partition: each.offset for place, each in committed.items()} == {
                    number: point.downstream for number, point in mine.items()
                }
                resource = ConfigResource(ResourceKind.TOPIC, topic)
                settings = (await kafka.admin.describe_configs([resource]))[resource]
                own = {
                    each.name: each.value
                    for each in settings
                    if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                }
                assert own == {"retention.ms": "98765432100000"}

    trio.run(compare)


def test_a_running_mirror_follows_new_topics_and_partitions(
    sides: tuple[Brokers, Brokers], tmp_path: Path
) -> None:
    source, target = sides
    topic = source.topic(1)
    factor = "1" if target.kind == "apache" else "3"
    mirror = Mirror(
        tmp_path / "mirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        *("--include", f"{topic}.*", "--replication-factor", factor, "--refresh-interval-s", "0.5"),
        *("--naming", "prefix", "--source-alias", "there", "--no-checkpoints", "--exactly-once"),
    )
    mirror.start()
    producer = Producer({"bootstrap.servers": source.bootstrap_servers})
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(30) == 0
    assert target_has(target, f"there.{topic}", 1)

    async def grow() -> None:
        async with connect(source.bootstrap_servers) as kafka:
            await kafka.admin.create_partitions({topic: 2})

    trio.run(grow)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers})

    def is_sent() -> bool:
        producer.produce(topic, b"second", partition=1)
        return producer.flush(30) == 0

    until(is_sent)
    assert target_has(target, f"there.{topic}", 2)
    mirror.kill()


def target_has(target: Brokers, topic: str, count: int) -> bool:
    from tests.integration.mirror.mirror_process import wait_end

    async def wait() -> bool:
        with trio.move_on_after(60):
            await wait_end(target.bootstrap_servers, topic, count)
            return True
        return False

    return trio.run(wait)


def test_a_plan_changes_nothing(sides: tuple[Brokers, Brokers], tmp_path: Path) -> None:
    source, target = sides
    topic = source.topic(2)
    mirror = Mirror(tmp_path / "m", source.bootstrap_servers, target.bootstrap_servers, "--include", topic)
    done = subprocess.run(
        [*mirror.command, "--dry-run", "--json"], capture_output=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == {
        "topics": {topic: 2},
        "changes": {topic: f"{topic}: create with 2 partitions"},
    }

    async def is_there() -> bool:
        async with connect(target.bootstrap_servers) as kafka:
            return topic in await kafka.admin.list_topics()

    assert not trio.run(is_there)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "Missing option '--include'"),
        (["--include", "("], 1, "no regular expression"),
        (["--include", "t", "--exactly-once", "--num.streams", "2"], 1, "--num.streams goes without it"),
        (["--include", "t", "--message.handler", "com.example.Handler"], 1, "is Java"),
        (["--include", "t", "--message.handler", "no_such_module:f"], 1, "no_such_module"),
        (["--include", "t", "--consumer.rebalance.listener", "x"], 1, "Java classes"),
        (["--include", "t"], 1, "127.0.0.1:1"),
    ],
)
def test_bad_input_gets_one_line(arguments, code, text, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, "127.0.0.1:1", "127.0.0.1:1", *arguments)
    done = subprocess.run(mirror.command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
