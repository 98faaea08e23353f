"""What is specific to asyncio: its cancellation and timeouts, its task groups, and what a client leaves in its loop."""

import asyncio
import os
import uuid

import pytest

from ottla.client import EARLIEST, LATEST, NoRoom, connect, in_thread


async def read_all(kafka, topic: str) -> list[bytes]:
    async with kafka.reader(topic, start=EARLIEST, stop=LATEST) as reader:
        return [value async for batch in reader for value in batch.values()]


def test_a_cancelled_task_flushes_commits_and_leaves(brokers) -> None:
    topic, name = brokers.topic(1), f"asyncio-{uuid.uuid4().hex[:8]}"

    async def work(began: asyncio.Event) -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            kafka.producer(linger=30) as out,
            kafka.group(name, topic, start=EARLIEST, heartbeat_interval=0.1) as group,
        ):
            await out.post(topic, b"one")
            await out.flush()
            batch = await anext(group)
            batch.done()
            await out.post(topic, b"lingers")
            began.set()
            await asyncio.Event().wait()

    async def body() -> None:
        began = asyncio.Event()
        task = asyncio.create_task(work(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async with connect(brokers.bootstrap_servers) as kafka:
            assert await read_all(kafka, topic) == [b"one", b"lingers"]
            async with kafka.group(name, topic, start=EARLIEST, heartbeat_interval=0.1) as group:
                # The member that was cancelled has left, so that this one need not wait for its session to end.
                async with asyncio.timeout(20):
                    assert (await anext(group)).values() == [b"lingers"]

    asyncio.run(body())


def test_timeouts_end_waits_and_lose_nothing(brokers) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with (
            connect(brokers.bootstrap_servers) as kafka,
            kafka.producer(linger=0.05) as out,
            kafka.reader(topic, start=EARLIEST) as reader,
        ):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(reader)
            await out.send(topic, b"first")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await out.send(topic, b"timed out")
            await out.send(topic, b"after")
            found: list[bytes] = []
            while len(found) < 3:
                for _ in range(20):
                    try:
                        found += (await asyncio.wait_for(anext(reader), 0.0005)).values()
                        break
                    except TimeoutError:
                        pass
            assert found == [b"first", b"timed out", b"after"]
            with pytest.raises(NoRoom):
                out.post_nowait(f"{topic}-unknown", b"")

    asyncio.run(body())


def test_tasks_of_a_task_group_share_a_producer(brokers) -> None:
    topic = brokers.topic(3)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer(room=50_000) as out, asyncio.TaskGroup() as tasks:

                async def send(task: int) -> None:
                    for number in range(100):
                        await out.post(topic, b"%d %d" % (task, number), key=b"%d" % task)

                for task in range(20):
                    tasks.create_task(send(task))
            found = await read_all(kafka, topic)
            for task in range(20):
                own = [each for each in found if each.startswith(b"%d " % task)]
                assert own == [b"%d %d" % (task, number) for number in range(100)]

    asyncio.run(body())


def test_an_exception_leaves_the_block_as_itself(brokers) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            await out.send(topic, b"")
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        asyncio.run(body())


def test_nothing_is_left_behind(brokers) -> None:
    topic = brokers.topic(1)

    async def once() -> None:
        async with connect(brokers.bootstrap_servers) as kafka, kafka.producer() as out:
            await out.send(topic, b"x")
            await read_all(kafka, topic)
            assert await in_thread(sum, [1, 2]) == 3

    async def body() -> None:
        await once()
        open_files = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            await once()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        # Clients of other tests may have closed some of theirs meanwhile.
        assert len(os.listdir("/proc/self/fd")) <= open_files

    asyncio.run(body())
