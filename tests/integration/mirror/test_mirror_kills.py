"""A mirror under kills of itself and of both clusters' brokers: no record is missing or duplicated."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ottla.client import Kafka, connect
from ottla.client.coordinator_link import GROUP, CoordinatorLink
from ottla.client.offset_commits import fetch_committed
from ottla.testing import Cluster
from tests.integration.flights import flight_lines
from tests.integration.mirror.mirror_process import Mirror, rows_of, wait_end
from wire.types import TopicPartition

PARTITIONS = 4
GROUPS = ("early", "late", "done")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters of two brokers, in which one broker alone can handle transactions."""
    alone = {"transaction.state.log.min.isr": "1"}
    with (
        Cluster.up(tmp_path / "a", brokers=2) as source,
        Cluster.up(tmp_path / "b", brokers=2, overrides=alone) as target,
    ):
        yield source, target


def create(cluster: Cluster, topic: str, **configs: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, PARTITIONS, 2, config=settings)])[topic].result(60)
    cluster.wait_in_sync(topic, PARTITIONS, replicas=2)


async def fill(servers: str, lines: list[bytes]) -> None:
    """Send flights, keyed by their carrier; some with headers, each with its own time."""
    async with connect(servers) as kafka, kafka.producer(compression="lz4") as out:
        for number, line in enumerate(lines):
            headers = [("number", b"%d" % number)] if number % 1000 == 0 else []
            carrier = line.split(b",")[9]
            await out.post(
                "flights", line, key=carrier, headers=headers, timestamp=1_600_000_000_000 + number
            )


async def commit_groups(servers: str, ends: dict[int, int]) -> None:
    """Leave three groups at the source: near the start, near the end, and at the end."""
    from ottla.client.admin import CommittedPosition
    from wire.types import Offset

    async with connect(servers) as kafka:
        for group, part in zip(GROUPS, (0.3, 0.9, 1.0), strict=True):
            offsets = {
                TopicPartition("flights", number): CommittedPosition(Offset(int(end * part)))
                for number, end in ends.items()
            }
            await kafka.admin.commit_offsets(group, offsets)


async def positions(kafka: Kafka, group: str) -> dict[int, int]:
    places = [TopicPartition("flights", number) for number in range(PARTITIONS)]
    coordinator = CoordinatorLink(kafka.context, GROUP, group)
    found = await fetch_committed(kafka.context, coordinator, group, places, require_stable=False)
    return {place.partition: position.offset for place, position in found.items()}


def test_flights_arrive_once_whatever_dies(tmp_path: Path, clusters: tuple[Cluster, Cluster]) -> None:
    source, target = clusters
    create(source, "flights", retention_ms="-1", segment_bytes="1048576")
    lines = flight_lines()
    mirror = Mirror(
        tmp_path / "mirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        *(
            "--include",
            "flights",
            "--exactly-once",
            "--transaction-interval-ms",
            "200",
            "--replication-factor",
            "2",
        ),
        *("--groups-interval-s", "0.5", "--throttle", "2000000"),
    )

    async def story() -> None:
        with trio.fail_after(280):
            await fill(source.bootstrap_servers, lines)
            mirror.start()
            await wait_end(target.bootstrap_servers, "flights", len(lines) // 10)
            steps = [
                (source.kill, source.start, 0),
                (target.kill, target.start, 0),
                (source.kill, source.start, 1),
                (target.kill, target.start, 1),
            ]
            for number, (kill, start, broker) in enumerate(steps, 2):
                mirror.kill()
                mirror.start()
                await trio.to_thread.run_sync(kill, broker)
                await wait_end(target.bootstrap_servers, "flights", len(lines) * number // 10)
                await trio.to_thread.run_sync(start, broker)
            mirror.kill()
            async with connect(source.bootstrap_servers) as kafka:
                sent = await rows_of(kafka, "flights")
            await commit_groups(
                source.bootstrap_servers, {number: rows[-1][0] + 1 for number, rows in sent.items()}
            )
            await trio.to_thread.run_sync(mirror.run_to_end)
            async with connect(target.bootstrap_servers) as kafka:
                found = await rows_of(kafka, "flights")
                for number, rows in sent.items():
                    assert [row for _, row in found[number]] == [row for _, row in rows]
                # The offsets of what a killed mirror copied last are unknown: groups read some records again, and skip
                # none.
                for group, part in zip(GROUPS, (0.3, 0.9, 1.0), strict=True):
                    assert await positions(kafka, group)
                    for number, offset in (await positions(kafka, group)).items():
                        after = sum(at >= offset for at, _ in found[number])
                        wanted = len(sent[number]) - int((sent[number][-1][0] + 1) * part)
                        assert wanted <= after, (group, number)
            assert (await trio.to_thread.run_sync(mirror.run_to_end))["records"] == 0

    trio.run(story)


def test_without_transactions_nothing_is_missing(tmp_path: Path, clusters: tuple[Cluster, Cluster]) -> None:
    source, target = clusters
    create(source, "flights")
    lines = flight_lines()[:60_000]
    mirror = Mirror(
        tmp_path / "mirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        *("--include", "flights", "--replication-factor", "2", "--throttle", "1000000"),
        *("--offset.commit.interval.ms", "200"),
    )

    async def story() -> None:
        with trio.fail_after(200):
            await fill(source.bootstrap_servers, lines)
            mirror.start()
            await wait_end(target.bootstrap_servers, "flights", len(lines) // 5)
            mirror.kill()
            await trio.to_thread.run_sync(target.kill, 0)
            mirror.start()
            await wait_end(target.bootstrap_servers, "flights", len(lines) // 2)
            mirror.kill()
            await trio.to_thread.run_sync(target.start, 0)
            await trio.to_thread.run_sync(mirror.run_to_end)
            async with connect(source.bootstrap_servers) as kafka:
                sent = await rows_of(kafka, "flights")
            async with connect(target.bootstrap_servers) as kafka:
                found = await rows_of(kafka, "flights")
        for number, rows in sent.items():
            first_seen = list(dict.fromkeys(row for _, row in found[number]))
            assert first_seen == [row for _, row in rows]

    trio.run(story)
