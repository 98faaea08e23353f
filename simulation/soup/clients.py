"""The clients of a run, which use the product's own library, and what they were promised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio

from ottla.client import EARLIEST, READ_COMMITTED, Batch, Transaction
from ottla.client.errors import ClientError
from ottla.client.offset_commits import CommittedOffset
from ottla.client.producer import Producer
from simulation.soup.plan import ORDERS_PARTITIONS
from simulation.soup.violation import Violation
from simulation.soup.world import BILLS, BILLS_PARTITIONS, ORDERS, World
from wire.types import TopicPartition

COPIERS: Final = "copiers"
READERS: Final = "readers"
PRODUCER_NAMES: Final = ("ann", "bob")
MEMBER_NAMES: Final = ("first", "second")
_RETRY_S: Final = 0.2
_IN_FLIGHT: Final = 5
_PACE_S: Final = 0.15
_PATIENCE_S: Final = 120.0
_SESSION_TIMEOUT_S: Final = 6.0
_HEARTBEAT_S: Final = 1.0
_REBALANCE_TIMEOUT_S: Final = 10.0


@dataclass(slots=True)
class Ledger:
    """What clients were promised.

    Attributes:
        acknowledged: The values of acknowledged records, by partition and offset.
        sent: The values of all records, acknowledged or not.
        failures: How often a client had to start again.
        committed: The highest acknowledged commit of the readers' group, by partition.
        read: What was read, by topic, partition and offset.
        stopping: Set when producers must stop sending.
    """

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    failures: int = 0
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    read: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    stopping: bool = False

    def note_acknowledged(self, partition: int, offset: int, value: bytes) -> None:
        """Note an acknowledgement.

        Raises:
            Violation: I1, something else was acknowledged there before.
        """
        before = self.acknowledged.setdefault((partition, offset), value)
        if before != value:
            raise Violation(
                "I1", f"{before!r} and then {value!r} were acknowledged at {offset} of partition {partition}"
            )

    def note_read(self, batch: Batch[bytes, bytes]) -> None:
        """Note a record that a reader received.

        Raises:
            Violation: I4, it was never sent; or I5, something else was read there before.
        """
        for record in batch:
            value = record.raw_value or b""
            if value not in self.sent:
                raise Violation("I4", f"{value!r} was read, and never sent")
            place = batch.topic, batch.partition, record.offset
            before = self.read.setdefault(place, value)
            if before != value:
                raise Violation("I5", f"{before!r} and then {value!r} were read at {place}")


class Sending:
    """A producer that numbers its records; those of one partition must stay in order.

    Args:
        world: The run.
        ledger: Where promises are noted.
        name: Its name, which begins its values.
    """

    def __init__(self, world: World, ledger: Ledger, name: str) -> None:
        self._world = world
        self._ledger = ledger
        self._name = name
        self._number = 0
        self._chance = Random(f"{world.plan.seed} {name}")
        self._slots = trio.CapacityLimiter(_IN_FLIGHT)

    async def run(self) -> None:
        """Send until the ledger is stopping; return when the outcome of each record is known."""
        while not self._ledger.stopping:
            try:
                async with (
                    self._world.kafka(self._name) as kafka,
                    kafka.producer(delivery_timeout=_PATIENCE_S) as out,
                    trio.open_nursery() as waiting,
                ):
                    while not self._ledger.stopping:
                        await self._send(out, waiting)
                        await trio.sleep(self._chance.uniform(0, 2 * _PACE_S))
                    with trio.move_on_after(_PATIENCE_S):
                        await out.flush()
            except* ClientError as error:
                self._ledger.failures += 1
                self._world.note(f"producer {self._name} begins anew: {error.exceptions[0]}")
                await trio.sleep(_RETRY_S)

    async def _send(self, out: Producer, waiting: trio.Nursery) -> None:
        partition = self._chance.randrange(ORDERS_PARTITIONS)
        value = b"%s %d %06d" % (self._name.encode(), partition, self._number)
        self._number += 1
        self._ledger.sent.add(value)
        await self._slots.acquire_on_behalf_of(value)
        delivery = await out.post(ORDERS, value, partition=partition)
        waiting.start_soon(self._note_outcome, delivery, value)

    async def _note_outcome(self, delivery: Any, value: bytes) -> None:
        try:
            place = await delivery.wait()
            self._ledger.note_acknowledged(place.partition, place.offset, value)
        except ClientError as error:
            self._world.note(f"{value.decode()} is not acknowledged: {error}")
        finally:
            self._slots.release_on_behalf_of(value)


async def copy(world: World, ledger: Ledger, name: str) -> None:
    """Copy orders to bills in transactions, as a member of a group, until cancelled."""

    async def copy_batch(transaction: Transaction, batch: Batch[bytes, bytes]) -> None:
        for record in batch:
            value = record.raw_value or b""
            await transaction.post(BILLS, value, partition=sum(value) % BILLS_PARTITIONS)

    while True:
        try:
            async with (
                world.kafka(f"copier {name}") as kafka,
                kafka.producer(
                    transactional_id=name, transaction_timeout=10.0, delivery_timeout=_PATIENCE_S
                ) as out,
                kafka.group(
                    COPIERS,
                    ORDERS,
                    start=EARLIEST,
                    isolation=READ_COMMITTED,
                    session_timeout=_SESSION_TIMEOUT_S,
                    heartbeat_interval=_HEARTBEAT_S,
                    rebalance_timeout=_REBALANCE_TIMEOUT_S,
                ) as group,
            ):
                await out.process(group, copy_batch)
        except* ClientError as error:
            ledger.failures += 1
            world.note(f"copier {name} begins anew: {error.exceptions[0]}")
        await trio.sleep(_RETRY_S)


async def read(world: World, ledger: Ledger, name: str) -> None:
    """Read orders as a member of a group that commits often, until cancelled."""

    def committed(offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        for place, committed in offsets.items():
            before = ledger.committed.get(place, 0)
            if committed.offset < before:
                raise Violation("I10", f"{READERS} commits {committed.offset} in {place} after {before}")
            ledger.committed[place] = committed.offset

    while True:
        try:
            async with (
                world.kafka(f"reader {name}") as kafka,
                kafka.group(
                    READERS,
                    ORDERS,
                    start=EARLIEST,
                    commit_interval=0.5,
                    on_commit=[committed],
                    session_timeout=_SESSION_TIMEOUT_S,
                    heartbeat_interval=_HEARTBEAT_S,
                    rebalance_timeout=_REBALANCE_TIMEOUT_S,
                ) as group,
            ):
                async for batch in group:
                    ledger.note_read(batch)
        except* ClientError as error:
            ledger.failures += 1
            world.note(f"reader {name} begins anew: {error.exceptions[0]}")
        await trio.sleep(_RETRY_S)


async def audit(world: World, ledger: Ledger) -> None:
    """Read committed bills from the beginning, and again after each failure, until cancelled."""
    while True:
        try:
            async with (
                world.kafka("auditor") as kafka,
                kafka.reader(BILLS, start=EARLIEST, isolation=READ_COMMITTED) as bills,
            ):
                async for batch in bills:
                    ledger.note_read(batch)
        except* ClientError as error:
            ledger.failures += 1
            world.note(f"the auditor begins anew: {error.exceptions[0]}")
        await trio.sleep(_RETRY_S)
