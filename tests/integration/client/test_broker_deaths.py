"""The client while brokers die and come back: no acknowledged record is lost, none is duplicated, the order holds."""

from collections import Counter
from pathlib import Path

import trio
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client import EARLIEST, LATEST, DeliveryError, connect
from ottla.testing import Cluster

TASKS = 10
PARTITIONS = 3


def test_what_was_acknowledged_is_there_once_and_in_order(tmp_path: Path) -> None:
    with Cluster.up(tmp_path / "data", brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic("t", PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t"].result(60)
        cluster.wait_in_sync("t", PARTITIONS)
        acknowledged: set[bytes] = set()
        doubtful: set[bytes] = set()
        read: Counter[bytes] = Counter()

        async def send(out, task: int, stop: trio.Event) -> None:
            number = 0
            while not stop.is_set():
                value = b"%d %d" % (task, number)
                try:
                    await out.send("t", value, key=b"key %d" % task)
                    acknowledged.add(value)
                except DeliveryError as error:
                    if error.maybe_written:
                        doubtful.add(value)
                number += 1

        async def consume(kafka, done: trio.Event) -> None:
            async with kafka.group(
                "g", "t", start=EARLIEST, heartbeat_interval=0.2, commit_interval=0.5
            ) as group:
                async for batch in group:
                    read.update(batch.values())
                    if done.is_set() and acknowledged <= read.keys():
                        return

        async def story() -> None:
            with trio.fail_after(150):
                async with connect(cluster.bootstrap_servers) as kafka:
                    stop, done = trio.Event(), trio.Event()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(consume, kafka, done)
                        async with kafka.producer(linger=0) as out, trio.open_nursery() as senders:
                            for task in range(TASKS):
                                senders.start_soon(send, out, task, stop)
                            for broker in range(3):
                                before = len(acknowledged)
                                await trio.to_thread.run_sync(cluster.kill, broker)
                                with trio.fail_after(40):
                                    while len(acknowledged) < before + 200:
                                        await trio.lowlevel.checkpoint()
                                await trio.to_thread.run_sync(cluster.start, broker)
                                await trio.to_thread.run_sync(cluster.wait_in_sync, "t", PARTITIONS)
                            stop.set()
                        done.set()
                        async with kafka.producer() as last:
                            for partition in range(PARTITIONS):
                                await last.send("t", b"end", partition=partition)
                    await check(kafka)

        async def check(kafka) -> None:
            found: Counter[bytes] = Counter()
            newest: dict[bytes, int] = {}
            async with kafka.reader("t", start=EARLIEST, stop=LATEST) as reader:
                async for batch in reader:
                    for value in batch.values():
                        if value == b"end":
                            continue
                        found[value] += 1
                        task, number = value.split()
                        assert newest.get(task, -1) < int(number)
                        newest[task] = int(number)
            assert max(found.values()) == 1
            assert acknowledged <= found.keys()
            assert found.keys() <= acknowledged | doubtful
            assert acknowledged <= read.keys()

        trio.run(story)
        assert len(acknowledged) > 600
