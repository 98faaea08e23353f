"""Groups shared with members of other clients: Java's, cooperative or eager, and aiokafka's, which are always eager."""

import subprocess
import threading
import uuid
from collections import Counter

import anyio
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from ottla.client import EARLIEST, connect
from tests.compat.client.eventually import eventually
from tests.compat.client.test_groups import QUICK, committed, fill

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PARTITIONS = 4


class JavaMember:
    """Java's console consumer as a member of a group; a thread collects what it reads."""

    def __init__(
        self, java: list[str], bootstrap_servers: str, topic: str, group: str, assignor: str
    ) -> None:
        properties = {
            "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}",
            "heartbeat.interval.ms": "100",
            "session.timeout.ms": "10000",
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": "1000",
        }
        given = [
            word for name, value in properties.items() for word in ("--consumer-property", f"{name}={value}")
        ]
        self.values: Counter[bytes] = Counter()
        self._process = subprocess.Popen(
            [
                *(*java, CONSOLE, "--bootstrap-server", bootstrap_servers, "--topic", topic),
                *("--group", group, *given),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.values[line.strip()] += 1

    def stop(self) -> None:
        """Let it commit and leave."""
        self._process.terminate()
        self._process.wait(60)
        self._thread.join()


@pytest.mark.parametrize("assignor", ["CooperativeStickyAssignor", "RangeAssignor"])
def test_a_group_with_java(brokers, run, kafka_java: list[str], assignor: str) -> None:
    topic, name = brokers.topic(PARTITIONS), f"java-{uuid.uuid4().hex[:8]}"
    ours: Counter[bytes] = Counter()
    assignors = ["cooperative-sticky" if "Cooperative" in assignor else "range"]
    java = JavaMember(kafka_java, brokers.bootstrap_servers, topic, name, assignor)

    async def read(group) -> None:
        async for batch in group:
            ours.update(batch.values())
            batch.done()

    async def body() -> None:
        fill(brokers, topic, PARTITIONS, 25)
        await eventually(lambda: sum(java.values.values()) == 100)
        async with connect(brokers.bootstrap_servers) as kafka:
            async with (
                kafka.group(name, topic, assignors=assignors, **QUICK) as group,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(read, group)
                await eventually(lambda: len(group.assignment) == PARTITIONS // 2)
                await anyio.to_thread.run_sync(fill, brokers, topic, PARTITIONS, 25, 25)
                await eventually(lambda: sum((ours + java.values).values()) >= 200)
                tasks.cancel_scope.cancel()
            assert sum(ours.values()) == 50, "two partitions were ours, from where Java had committed them"
            await anyio.to_thread.run_sync(fill, brokers, topic, PARTITIONS, 25, 50)
            await eventually(lambda: sum((ours + java.values).values()) >= 300)

    try:
        run(body)
    finally:
        java.stop()
    everything = {b"%d-%d" % (partition, number) for partition in range(PARTITIONS) for number in range(75)}
    assert ours + java.values == Counter(everything), "each record was read once, by one of the two"
    assert committed(brokers, name, topic, PARTITIONS) == [75] * PARTITIONS


@pytest.mark.parametrize(
    ("theirs", "assignor"), [(RangePartitionAssignor, "range"), (RoundRobinPartitionAssignor, "roundrobin")]
)
def test_a_group_with_aiokafka(brokers, theirs, assignor: str) -> None:
    topic, name = brokers.topic(PARTITIONS), f"aiokafka-{uuid.uuid4().hex[:8]}"
    fill(brokers, topic, PARTITIONS, 25)
    found: Counter[bytes] = Counter()

    async def body() -> None:
        other = AIOKafkaConsumer(
            topic,
            bootstrap_servers=brokers.bootstrap_servers,
            group_id=name,
            partition_assignment_strategy=[theirs],
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            session_timeout_ms=10_000,
            auto_commit_interval_ms=100,
        )

        async def read_theirs() -> None:
            async for record in other:
                found[record.value] += 1

        async def read_ours(group) -> None:
            async for batch in group:
                found.update(batch.values())
                batch.done()

        await other.start()
        try:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read_theirs)
                    await eventually(lambda: sum(found.values()) == 100)
                    async with (
                        connect(brokers.bootstrap_servers) as kafka,
                        kafka.group(
                            name, topic, start=EARLIEST, assignors=[assignor], heartbeat_interval=0.1
                        ) as group,
                        anyio.create_task_group() as own,
                    ):
                        own.start_soon(read_ours, group)
                        await eventually(lambda: len(group.assignment) == len(other.assignment()) == 2)
                        await anyio.to_thread.run_sync(fill, brokers, topic, PARTITIONS, 25, 25)
                        await eventually(lambda: len(found) == 200)
                        own.cancel_scope.cancel()
                    await eventually(lambda: len(other.assignment()) == PARTITIONS)
                    await anyio.to_thread.run_sync(fill, brokers, topic, PARTITIONS, 25, 50)
                    await eventually(lambda: len(found) == 300)
                    tasks.cancel_scope.cancel()
        finally:
            await other.stop()

    anyio.run(body, backend="asyncio")
    assert max(found.values()) == 1, "each record was read once"
