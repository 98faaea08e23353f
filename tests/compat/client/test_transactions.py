"""Transactions of the client, against brokers of both kinds."""

import uuid

import anyio
import pytest

from ottla.client import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    ClientError,
    ProducerFenced,
    RecordTooLarge,
    TransactionAborted,
    connect,
)
from tests.compat.client.eventually import eventually
from wire.errors import Error


async def seen(kafka, topic: str) -> list[bytes]:
    found = []
    async with kafka.reader(topic, start=EARLIEST, stop=LATEST, isolation=READ_COMMITTED) as reader:
        async for batch in reader:
            found += batch.values()
    return found


async def wait_seen(kafka, topic: str, expected: list[bytes]) -> None:
    """Wait until exactly these records are seen: markers are written after the answer to a commit."""
    while (found := await seen(kafka, topic)) != expected:
        assert found == expected[: len(found)]


def test_committed_records_are_seen_and_aborted_ones_are_not(brokers, run) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer(transactional_id=topic) as out:
                for number in range(6):
                    try:
                        async with out.transaction() as txn:
                            await txn.post(topic, b"%d a" % number)
                            place = await txn.send(topic, b"%d b" % number)
                            assert place.offset >= 0
                            if number % 2:
                                raise KeyError("abort this one")
                    except KeyError:
                        pass
                async with out.transaction():
                    pass  # an empty one sends no request
                with anyio.move_on_after(0.001) as scope:
                    async with out.transaction() as txn:
                        await txn.post(topic, b"cancelled")
                        await anyio.sleep_forever()
                assert scope.cancelled_caught
                async with out.transaction() as txn:
                    await txn.post(topic, b"last")
            expected = [b"%d %s" % (number, part) for number in (0, 2, 4) for part in (b"a", b"b")]
            await wait_seen(kafka, topic, [*expected, b"last"])

    run(body)


def test_a_failed_record_aborts_the_whole(brokers, run) -> None:
    topic = brokers.topic(1, max_message_bytes="1000")

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer(transactional_id=topic) as out:

                async def fail() -> None:
                    async with out.transaction() as txn:
                        await txn.post(topic, b"small")
                        await txn.post(topic, b"x" * 5000)

                with pytest.raises(TransactionAborted) as caught:
                    await fail()
                assert isinstance(caught.value.__cause__, RecordTooLarge)
                async with out.transaction() as txn:
                    await txn.post(topic, b"after")
            await wait_seen(kafka, topic, [b"after"])

    run(body)


def test_a_zombie_is_fenced(brokers, run) -> None:
    topic = brokers.topic(1)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer(transactional_id=topic) as older:
                async with older.transaction() as txn:
                    await txn.post(topic, b"first")
                async with kafka.producer(transactional_id=topic) as newer:
                    with pytest.raises(ProducerFenced):
                        async with older.transaction() as txn:
                            await txn.post(topic, b"zombie")
                    with pytest.raises(ProducerFenced):
                        async with older.transaction():
                            pass
                    async with newer.transaction() as txn:
                        await txn.post(topic, b"second")
            await wait_seen(kafka, topic, [b"first", b"second"])

    run(body)


def test_an_administrator_fences_producers(brokers, run) -> None:
    topic = brokers.topic(1)
    unused = f"{topic}-unused"

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            found = {}

            async def be_fenced(older) -> None:
                async with older.transaction() as txn:
                    await txn.send(topic, b"open")
                    found.update(await kafka.admin.fence_producers([topic, unused, ""]))

            async with kafka.producer(transactional_id=topic) as older:
                with pytest.raises(ProducerFenced):
                    await be_fenced(older)
            assert list(found) == [topic, unused, ""]
            refused = found[""]
            assert isinstance(refused, ClientError)
            assert refused.error is Error.INVALID_REQUEST
            assert found[unused].producer_epoch == 0
            # No producer gets the epoch of the abort; the new one gets the next epoch.
            assert found[topic].producer_epoch == 2
            described = await kafka.admin.describe_transaction(topic)
            assert (described.state, described.producer_epoch) == ("Empty", 2)
            again = await kafka.admin.fence_producers([topic])
            assert again[topic].producer_id == found[topic].producer_id
            assert again[topic].producer_epoch == 3
            async with kafka.producer(transactional_id=topic) as out, out.transaction() as txn:
                await txn.post(topic, b"after")
            await wait_seen(kafka, topic, [b"after"])

    run(body)


def test_a_copy_is_exactly_once(brokers, run) -> None:
    source, target = brokers.topic(3), brokers.topic(2)
    name = f"copy-{uuid.uuid4().hex[:8]}"
    sent = [b"%d" % number for number in range(300)]
    failures = iter([True, False, True, False, False, True])
    copied = 0

    async def copy(kafka) -> None:
        """Copy until cancelled; some transactions fail halfway."""
        options = {
            "start": EARLIEST,
            "isolation": READ_COMMITTED,
            "max_records": 20,
            "heartbeat_interval": 0.1,
        }
        async with (
            kafka.producer(transactional_id=name) as out,
            kafka.group(name, source, **options) as group,
        ):

            async def work(txn, batch) -> None:
                nonlocal copied
                for value in batch.values():
                    await txn.post(target, value)
                if next(failures, False):
                    raise TransactionAborted("a test's failure")
                copied += len(batch)

            await out.process(group, work)

    async def body() -> None:
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer() as out:
                for number, value in enumerate(sent):
                    await out.post(source, value, partition=number % 3)
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(copy, kafka)
                await eventually(lambda: copied >= 150)
                nursery.cancel_scope.cancel()
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(copy, kafka)
                while len(await seen(kafka, target)) < 300:
                    pass
                nursery.cancel_scope.cancel()
            assert sorted(await seen(kafka, target)) == sorted(sent)

    run(body)
