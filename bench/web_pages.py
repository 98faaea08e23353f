"""How long the web server takes for each page, at ten thousand partitions: ``python -m bench.web_pages``.

The pages are requested from the application itself, without sockets and without a cluster: the client's answers are
made here. Apart from them, the cost of one look at the cluster is measured, from the bytes of the broker's answer on:
pages do not wait for it, but a page that is requested during it is late by as much.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import trio

from ottla.client.admin import (
    Broker,
    ClusterDescription,
    CommittedPosition,
    FoundOffset,
    GroupDescription,
    ListedGroup,
    LogDirectory,
    PartitionDescription,
    ReplicaOnDisk,
    TopicDescription,
)
from ottla.client.settings import ConnectionSettings
from ottla.web.application import make_application
from ottla.web.models.overview import overview
from ottla.web.server import make_web
from ottla.web.settings import WebSettings
from timing.clock import SystemClock
from wire.codec import decode, encode
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicPartition, WallMs

BROKERS = tuple(BrokerId(each) for each in range(6))
REPLICAS = 3
TOPIC_PARTITIONS = 100
GROUPS = 300
TIMES = 20
METADATA_VERSION = 12


def replicas_of(number: int) -> tuple[BrokerId, ...]:
    """Return three brokers in turn."""
    return tuple(BROKERS[(number + each) % len(BROKERS)] for each in range(REPLICAS))


class MadeAdmin:
    """Answers like a cluster with that many partitions, without delay.

    Args:
        partitions: How many partitions the cluster has.
    """

    def __init__(self, partitions: int) -> None:
        self.cluster = ClusterDescription(
            "bench",
            BROKERS[0],
            {each: Broker(each, "kafka", 9092 + each, f"rack-{each}") for each in BROKERS},
        )
        self.topics = [
            TopicDescription(
                f"topic-{topic:04d}",
                NO_TOPIC_ID,
                False,
                tuple(
                    PartitionDescription(
                        each, replicas_of(each)[0], LeaderEpoch(3), replicas_of(each), replicas_of(each), ()
                    )
                    for each in range(TOPIC_PARTITIONS)
                ),
            )
            for topic in range(partitions // TOPIC_PARTITIONS)
        ]
        self.places = [
            TopicPartition(each.name, one.partition) for each in self.topics for one in each.partitions
        ]

    async def refresh(self) -> ClusterDescription:
        """Return the brokers."""
        return self.cluster

    async def describe_topics(self, _names: object = None) -> list[TopicDescription]:
        """Return all topics."""
        return self.topics

    async def describe_configs(self, resources: Sequence[Any], **_options: object) -> Mapping[Any, list[Any]]:
        """Return no settings."""
        return {each: [] for each in resources}

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], **_options: object
    ) -> Mapping[Any, Any]:
        """Return an offset for each."""
        return {
            at: FoundOffset(Offset(1_000_000 if when == -1 else 0), WallMs(-1), LeaderEpoch(3))
            for at, when in wanted.items()
        }

    async def describe_log_dirs(self, broker_id: BrokerId, _topics: object = None) -> list[LogDirectory]:
        """Return one full directory."""
        held = tuple(
            ReplicaOnDisk(at.topic, at.partition, 1_000_000, 0, False)
            for at in self.places
            if broker_id in replicas_of(at.partition)
        )
        return [LogDirectory("/var/lib/kafka", None, 10**12, 10**11, held)]

    async def list_groups(self, *_filters: object) -> list[ListedGroup]:
        """Return many groups."""
        return [ListedGroup(f"group-{each:04d}", "consumer", "Stable", BROKERS[0]) for each in range(GROUPS)]

    async def describe_group(self, name: str) -> GroupDescription:
        """Return a group without members."""
        return GroupDescription(name, "Empty", "consumer", "range", BROKERS[0], ())

    async def committed_offsets(self, _name: str) -> Mapping[TopicPartition, CommittedPosition]:
        """Return offsets in ten topics."""
        return {at: CommittedPosition(Offset(999_000)) for at in self.places[: 10 * TOPIC_PARTITIONS]}

    async def list_reassignments(self) -> Mapping[Any, Any]:
        """Return no moves."""
        return {}

    async def list_transactions(self, *_states: object) -> list[Any]:
        """Return no transactions."""
        return []


async def ask(application: Any, path: str, *, live: bool = False) -> int:
    """Request a page, and return its size.

    Raises:
        AssertionError: It is not answered with 200.
    """
    raw, _, query = path.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": raw, "raw_path": raw.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"127.0.0.1")] + ([(b"hx-request", b"true")] if live else []),
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9080),
    }  # fmt: skip
    await application(scope, receive, send)
    assert sent[0]["status"] == 200, (path, sent)
    return sum(len(each.get("body", b"")) for each in sent)


async def measure(partitions: int) -> None:
    """Print a line for each page, and the cost of a look."""
    admin = MadeAdmin(partitions)
    web = make_web(WebSettings(bootstrap_servers="kafka:9092"), ConnectionSettings(), SystemClock())
    web.connection.use(type("Made", (), {"admin": admin})())  # type: ignore[arg-type]
    application = make_application(web)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(web.watch.run)
        await web.watch.current()
        await web.samples.sample_ends()
        await web.samples.sample_disks()
        for group in range(20):
            web.samples.note_lag(f"group-{group:04d}", [])
        print(f"{partitions:,} partitions in {len(admin.topics)} topics, {TIMES} times each")
        print(f"{'page':<44}{'median ms':>10}{'worst ms':>10}{'KB':>8}")
        for path in (
            "/", "/?page=3", "/brokers/0", "/topics", "/topics?sort=size", "/topics?search=7", "/topics/topic-0001",
            "/groups", "/groups/group-0001", "/groups/group-0001/reset", "/moves", "/transactions",
        ):  # fmt: skip
            for live in (False, True) if path in ("/", "/topics", "/topics/topic-0001") else (False,):
                times = []
                for _ in range(TIMES):
                    began = perf_counter()
                    size = await ask(application, path, live=live)
                    times.append((perf_counter() - began) * 1000)
                name = f"{path}{'  (its moving part)' if live else ''}"
                print(f"{name:<44}{statistics.median(times):>10.1f}{max(times):>10.1f}{size / 1000:>8.0f}")
        nursery.cancel_scope.cancel()
    look(admin)


def look(admin: MadeAdmin) -> None:
    """Measure a look: decoding the broker's answer, and summing it up."""
    answer = MetadataResponse(
        cluster_id="bench",
        controller_id=BROKERS[0],
        brokers=[MetadataResponseBroker(node_id=each, host="kafka", port=9092) for each in BROKERS],
        topics=[
            MetadataResponseTopic(
                name=topic.name,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=each.partition, leader_id=each.leader, leader_epoch=each.leader_epoch,
                        replica_nodes=list(each.replicas), isr_nodes=list(each.isr),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in admin.topics
        ],
    )  # fmt: skip
    data = bytes(encode(answer, METADATA_VERSION))
    for name, work in (
        (
            f"decoding {len(data) // 1000} KB of metadata",
            lambda: decode(MetadataResponse, METADATA_VERSION, data),
        ),
        ("summing it up", lambda: overview(admin.cluster, admin.topics, WallMs(0)).brokers),
    ):
        times = []
        for _ in range(TIMES):
            began = perf_counter()
            work()
            times.append((perf_counter() - began) * 1000)
        print(f"{name:<44}{statistics.median(times):>10.1f}{max(times):>10.1f}")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description="Measure the web page's server time.")
    parser.add_argument("--partitions", type=int, default=10_000)
    trio.run(measure, parser.parse_args().partitions)


if __name__ == "__main__":
    main()
