"""One member of a group as a process of its own, which a test can kill or stop: python member_process.py <options>.

It prints what happens as lines of JSON, each with the time on the machine's monotonic clock: assigned, revoked, lost,
consumed (a run of offsets), committed, refused (a commit), closed. SIGTERM has it leave its group.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterable

MESSAGES_AT_ONCE = 200


def say(event: str, **what: object) -> None:
    print(json.dumps({"event": event, "at": time.monotonic(), **what}), flush=True)


def runs(offsets: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the offsets by partition."""
    found: dict[int, list[int]] = {}
    for partition, offset in offsets:
        found.setdefault(partition, []).append(offset)
    return found


def give_up(positions: dict[int, int], partitions: list[int]) -> list[int]:
    """Forget the uncommitted positions of partitions that are taken away; return the partitions."""
    for partition in partitions:
        positions.pop(partition, None)
    return partitions


class Stop:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


def with_confluent(options: argparse.Namespace, stop: Stop) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "partition.assignment.strategy": options.strategy,
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": options.session_ms // 5,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **({"group.instance.id": options.instance} if options.instance else {}),
        }
    )

    positions: dict[int, int] = {}

    def assigned(_, partitions) -> None:
        say("assigned", partitions=[p.partition for p in partitions])

    def taken(event: str):
        def take(_, partitions) -> None:
            say(event, partitions=give_up(positions, [p.partition for p in partitions]))

        return take

    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=taken("revoked"), on_lost=taken("lost"))
    while not stop.asked:
        messages = [m for m in consumer.consume(MESSAGES_AT_ONCE, 0.1) if m.error() is None]
        read = runs((m.partition(), m.offset()) for m in messages)
        for partition, offsets in read.items():
            say("consumed", partition=partition, offsets=offsets)
            positions[partition] = offsets[-1] + 1
        if not positions:
            continue
        try:
            consumer.commit(
                offsets=[TopicPartition(options.topic, p, offset) for p, offset in positions.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            say("refused", why=error.args[0].name())
        else:
            say("committed", positions=positions)
            positions.clear()
    consumer.close()


def with_kafka_python(options: argparse.Namespace, stop: Stop) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap.split(","),
        group_id=options.group,
        partition_assignment_strategy=[assignors[options.strategy]],
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.session_ms // 5,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
        fetch_max_wait_ms=50,
        reconnect_backoff_max_ms=200,
        group_instance_id=options.instance,
    )

    def generation() -> int:
        found = consumer._coordinator.generation_if_stable()
        return -1 if found is None else found.generation_id

    positions: dict[int, int] = {}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned) -> None:
            say("assigned", partitions=[p.partition for p in assigned], generation=generation())

        def on_partitions_revoked(self, revoked) -> None:
            say("revoked", partitions=give_up(positions, [p.partition for p in revoked]))

        def on_partitions_lost(self, lost) -> None:
            say("lost", partitions=give_up(positions, [p.partition for p in lost]))

    consumer.subscribe([options.topic], listener=Listener())
    while not stop.asked:
        # A poll that times out during a rebalance can leave this client without any assignment (3.0.12).
        polled = consumer.poll(2_000, max_records=MESSAGES_AT_ONCE)
        read = {p.partition: [m.offset for m in messages] for p, messages in polled.items() if messages}
        for partition, offsets in read.items():
            say("consumed", partition=partition, offsets=offsets)
            positions[partition] = offsets[-1] + 1
        if not positions:
            continue
        try:
            consumer.commit(
                {
                    TopicPartition(options.topic, p): OffsetAndMetadata(offset, "", -1)
                    for p, offset in positions.items()
                }
            )
        except KafkaError as error:
            say("refused", why=type(error).__name__)
        else:
            say("committed", positions=positions)
            positions.clear()
    consumer.close()


def with_aiokafka(options: argparse.Namespace, stop: Stop) -> None:
    asyncio.run(_with_aiokafka(options, stop))


async def _with_aiokafka(options: argparse.Namespace, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        partition_assignment_strategy=[assignors[options.strategy]],
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.session_ms // 5,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
        fetch_max_wait_ms=50,
        retry_backoff_ms=50,
        group_instance_id=options.instance,
    )

    positions: dict[int, int] = {}

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned) -> None:
            generation = consumer._coordinator.generation
            say("assigned", partitions=[p.partition for p in assigned], generation=generation)

        async def on_partitions_revoked(self, revoked) -> None:
            say("revoked", partitions=give_up(positions, [p.partition for p in revoked]))

    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    while not stop.asked:
        polled = await consumer.getmany(timeout_ms=100, max_records=MESSAGES_AT_ONCE)
        read = {p.partition: [m.offset for m in messages] for p, messages in polled.items() if messages}
        for partition, offsets in read.items():
            say("consumed", partition=partition, offsets=offsets)
            positions[partition] = offsets[-1] + 1
        if not positions:
            continue
        try:
            await consumer.commit(
                {TopicPartition(options.topic, p): offset for p, offset in positions.items()}
            )
        except KafkaError as error:
            say("refused", why=type(error).__name__)
        else:
            say("committed", positions=positions)
            positions.clear()
    # If the coordinator is away, the client's own retries cancel this call.
    with contextlib.suppress(asyncio.CancelledError):
        await consumer.stop()


CLIENTS = {"confluent": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


def main() -> None:
    # Before it joins: as soon as its parent sees it in the group, the parent can send SIGTERM.
    stop = Stop()
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", choices=CLIENTS, required=True)
    for name in ("bootstrap", "group", "topic", "strategy"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--session-ms", type=int, required=True)
    parser.add_argument("--instance")
    options = parser.parse_args()
    CLIENTS[options.client](options, stop)
    say("closed")


if __name__ == "__main__":
    sys.exit(main())
