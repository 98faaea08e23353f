"""What a mirror does besides copying: handlers, a bound on its rate, metrics, access rules and quotas."""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ottla.client import connect
from ottla.client.admin.acls import Acl
from ottla.testing.in_process import InProcessCluster
from tests.integration.mirror.mirror_process import Mirror, rows_of, wait_end
from tests.patience import until
from timing.clock import SystemClock
from wire.acl_codes import Operation, PatternType, Permission, ResourceType

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS = 60


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[InProcessCluster, InProcessCluster]]:
    with (
        InProcessCluster.up(brokers=1, settings=SETTINGS) as source,
        InProcessCluster.up(brokers=1, settings=SETTINGS) as target,
    ):
        yield source, target


def fill(source: InProcessCluster, topic: str, size: int = 10) -> None:
    source.create_topic(topic, partitions=2)

    async def send() -> None:
        async with connect(source.bootstrap_servers) as kafka, kafka.producer() as producer:
            for number in range(RECORDS):
                await producer.post(topic, b"%d" % number + bytes(size), key=b"k", partition=number % 2)

    trio.run(send)


def mirror(sides, directory: Path, topic: str, *arguments: str) -> Mirror:
    source, target = sides
    found = Mirror(
        directory / "mirror",
        source.bootstrap_servers,
        target.bootstrap_servers,
        "--include",
        topic,
        *arguments,
    )
    (directory / "mirror" / "source").write_text(
        f"bootstrap.servers={source.bootstrap_servers}\ngroup.id=mirror-of-{topic}\nauto.offset.reset=earliest\n"
    )
    return found


def test_a_message_handler_makes_the_records(sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(sides[0], "handled")
    (tmp_path / "handlers.py").write_text(
        "from ottla.client import OutgoingRecord\n"
        "def thirds(record, argument):\n"
        "    if record.offset % 3:\n"
        "        return []\n"
        "    made = OutgoingRecord(record.topic, record.key, argument.encode(), (), record.partition, None)\n"
        "    return [made, made]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    handler = ("--message.handler", "handlers:thirds", "--message.handler.args", "new")
    counted = mirror(sides, tmp_path, "handled", *handler).run_to_end()
    assert counted["records"] == 40

    async def look() -> None:
        async with connect(sides[1].bootstrap_servers) as kafka:
            found = await rows_of(kafka, "handled")
        assert {number: [row[:2] for _, row in rows] for number, rows in found.items()} == {
            number: [(b"k", b"new")] * 20 for number in range(2)
        }

    trio.run(look)


def test_a_throttle_bounds_the_rate(sides, tmp_path: Path) -> None:
    """Two partitions with 300 kB each: the second batch waits until the rate allows it."""
    fill(sides[0], "throttled", 10_000)
    clock = SystemClock()
    before = clock.monotonic()
    counted = mirror(sides, tmp_path, "throttled", "--throttle", "200000", "--no-checkpoints").run_to_end()
    assert counted["records"] == RECORDS
    assert clock.monotonic() - before >= 1.0


def test_metrics_are_served(sides, tmp_path: Path) -> None:
    fill(sides[0], "measured")
    made = mirror(sides, tmp_path, "measured", "--metrics-port", "0", "--offset.commit.interval.ms", "100")
    with subprocess.Popen(
        made.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            found = None
            while found is None:
                found = re.search(r"metrics: (http://127\.0\.0\.1:\d+/metrics)", process.stderr.readline())

            async def all_there() -> None:
                with trio.fail_after(60):
                    await wait_end(sides[1].bootstrap_servers, "measured", RECORDS)

            trio.run(all_there)
            wanted = f'ottla_mirror_records_total{{source="source",target="target"}} {RECORDS}.0'
            with_lag = 'ottla_mirror_lag{partition="1",source="source",target="target",topic="measured"} 0.0'

            def are_shown() -> bool:
                with urllib.request.urlopen(found[1], timeout=10) as answer:
                    text = answer.read().decode()
                return wanted in text and with_lag in text

            until(are_shown)
        finally:
            process.kill()


def test_rules_and_quotas(sides, tmp_path: Path) -> None:
    fill(sides[0], "ruled")

    def rule(user: str, operation: Operation) -> Acl:
        return Acl(
            ResourceType.TOPIC, "ruled", PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW
        )

    async def prepare() -> None:
        async with connect(sides[0].bootstrap_servers) as kafka:
            given = [("reader", Operation.READ), ("writer", Operation.WRITE), ("owner", Operation.ALL)]
            await kafka.admin.create_acls([rule(user, operation) for user, operation in given])
            await kafka.admin.alter_quotas({"user": "reader"}, {"consumer_byte_rate": 12345.0})

    async def look() -> tuple[list[Acl], object]:
        async with connect(sides[1].bootstrap_servers) as kafka:
            return await kafka.admin.list_acls(), await kafka.admin.describe_quotas({})

    trio.run(prepare)
    mirror(sides, tmp_path, "ruled", "--sync-acls", "--sync-quotas").run_to_end()
    acls, quotas = trio.run(look)
    assert acls == [rule("owner", Operation.READ), rule("reader", Operation.READ)]
    assert quotas == [({"user": "reader"}, {"consumer_byte_rate": 12345.0})]
