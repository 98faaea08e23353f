"""The invariants: at every moment, and when everything has healed.

The numbers are those of the table in docs/simulation.md.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cluster.zookeeper.client import Create, Operation, SetData
from simulation.ports import read_range
from simulation.soup.clients import Ledger
from simulation.soup.plan import ORDERS_PARTITIONS
from simulation.soup.violation import Violation
from simulation.soup.world import BILLS, BILLS_PARTITIONS, ORDERS, World
from storage.log import Log
from wire.records.batch import BatchHeader, iter_headers
from wire.records.record import ControlType, iter_records, read_control_type
from wire.types import Offset, TopicPartition

_STATE: Final = re.compile(r"/brokers/topics/(.+)/partitions/(\d+)/state")
_READ_BYTES: Final = 1 << 20

_Place = tuple[str, int]


class Watcher:
    """Checks the invariants that must hold at every moment.

    Args:
        world: The run.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[_Place, dict[str, Any]] = {}
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._controllers: dict[int, int] = {}
        self._agreed: dict[tuple[_Place, int], tuple[int, int, int]] = {}
        self._agreed_to: dict[tuple[int, int, _Place], int] = {}

    @property
    def leaderships(self) -> int:
        """How many leaderships of partitions it has seen."""
        return len(self._leaders)

    @property
    def controllers(self) -> int:
        """How many terms of controllers it has seen."""
        return len(self._controllers)

    def written(self, operations: Sequence[Operation]) -> None:
        """Check a transaction that ZooKeeper has done.

        Raises:
            Violation: I6 or I8 does not hold.
        """
        for operation in operations:
            if isinstance(operation, Create | SetData) and (found := _STATE.fullmatch(operation.path)):
                place = found[1], int(found[2])
                if isinstance(operation, Create):
                    self._states.pop(place, None)
                self._check_state(place, json.loads(operation.data or b"{}"))

    def _check_state(self, place: _Place, state: dict[str, Any]) -> None:
        before = self._states.get(place)
        leader, isr = state["leader"], state["isr"]
        where = f"{place[0]}-{place[1]}"
        if not isr or len(set(isr)) != len(isr):
            raise Violation("I8", f"the ISR of {where} is {isr}")
        if leader != -1 and leader not in isr:
            raise Violation("I8", f"{where} is led by {leader}, which is not in its ISR {isr}")
        if before is not None:
            if leader not in (-1, *before["isr"]):
                raise Violation("I8", f"{where} gets the leader {leader}, and its ISR was {before['isr']}")
            if state["leader_epoch"] < before["leader_epoch"]:
                raise Violation("I6", f"the leader epoch of {where} falls to {state['leader_epoch']}")
            if leader != before["leader"] and state["leader_epoch"] == before["leader_epoch"]:
                raise Violation("I6", f"{where} gets the leader {leader} in the epoch of {before['leader']}")
            if state["controller_epoch"] < before["controller_epoch"]:
                raise Violation("I7", f"a former controller writes the state of {where}")
        self._states[place] = state

    def look(self) -> None:
        """Check the brokers' descriptions of themselves.

        Raises:
            Violation: one of I4, I6 and I7 does not hold.
        """
        running = self._world.cluster.running()
        for number, broker in running.items():
            controller = broker.describe().get("controller", {})
            epoch = controller.get("epoch", -1)
            if controller.get("active") and self._controllers.setdefault(epoch, number) != number:
                raise Violation(
                    "I7", f"brokers {self._controllers[epoch]} and {number} control in epoch {epoch}"
                )
        for replica_on, each in self._world.replicas():
            place = each["topic"], each["partition"]
            if each["is_leader"]:
                key = (*place, each["leader_epoch"])
                # A topic that was deleted and created again starts its epochs over.
                if self._leaders.setdefault(key, replica_on) != replica_on and place[0] in (ORDERS, BILLS):
                    raise Violation(
                        "I6", f"{self._leaders[key]} and {replica_on} lead {place} in epoch {key[2]}"
                    )
            if place[0] in (ORDERS, BILLS):
                self._compare(replica_on, place)

    def _compare(self, number: int, place: _Place) -> None:
        """Check that a replica has the same records below its high watermark as every other."""
        broker = self._world.cluster.running()[number]  # type: ignore[index]
        logs = broker.logs
        log = None if logs is None else logs.get(TopicPartition(*place))
        if log is None:
            return
        key = number, id(broker), place
        begin = self._agreed_to.get(key, 0)
        end = log.high_watermark
        if begin >= end:
            return
        for header, _ in batches(log, begin, end):
            identity = header.last_offset, header.crc, header.partition_leader_epoch
            if self._agreed.setdefault((place, header.base_offset), identity) != identity:
                raise Violation(
                    "I4",
                    f"broker {number} has another batch at {header.base_offset} of {place[0]}-{place[1]}",
                )
        self._agreed_to[key] = end


def batches(log: Log, begin: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a log between two offsets: header, and the bytes of the batch alone."""
    offset = begin
    while offset < end:
        found = log.read(Offset(offset), _READ_BYTES, upper_bound=Offset(end), min_one_batch=True)
        if found.file_range is None:
            return
        data = memoryview(read_range(found.file_range))
        before = offset
        for position, header in iter_headers(data):
            if header.last_offset < offset:
                continue
            yield header, data[position:]
            offset = header.next_offset
        if offset == before:
            return


def check_end(world: World, ledger: Ledger) -> None:
    """Check what must hold when everything has healed and every client has come to its end.

    Raises:
        Violation: one of I1 to I5 and I10 to I12 does not hold.
    """
    orders: list[bytes] = []
    for partition in range(ORDERS_PARTITIONS):
        values = dict(_values(_leaders_log(world, ORDERS, partition)))
        check_orders(partition, values, ledger)
        check_read(ORDERS, partition, values, ledger)
        orders += values.values()
    bills: list[bytes] = []
    for partition in range(BILLS_PARTITIONS):
        committed = committed_values(_leaders_log(world, BILLS, partition))
        check_read(BILLS, partition, committed, ledger)
        bills += committed.values()
    if sorted(bills) != sorted(orders):
        lost = sorted(set(orders) - set(bills))[:3]
        twice = sorted({each for each in bills if bills.count(each) > 1})[:3]
        raise Violation(
            "I11", f"of {len(orders)} orders {len(bills)} are billed; not billed: {lost}; twice: {twice}"
        )
    _check_replicas(world)


def is_billed(world: World) -> bool:
    """Return whether as many bills are committed as there are orders."""
    try:
        orders = sum(1 for p in range(ORDERS_PARTITIONS) for _ in _values(_leaders_log(world, ORDERS, p)))
        bills = sum(len(committed_values(_leaders_log(world, BILLS, p))) for p in range(BILLS_PARTITIONS))
    except LookupError:
        return False
    return bills >= orders


def check_orders(partition: int, values: Mapping[int, bytes], ledger: Ledger) -> None:
    """Check the records of one partition of the orders.

    Args:
        partition: The partition.
        values: Its records' values, by offset.
        ledger: What was promised.

    Raises:
        Violation: one of I1 to I4 does not hold.
    """
    where = f"{ORDERS}-{partition}"
    for (number, offset), value in ledger.acknowledged.items():
        if number == partition and values.get(offset) != value:
            raise Violation(
                "I1", f"{value!r} was acknowledged at {offset} of {where}, where {values.get(offset)!r} is"
            )
    seen = list(values.values())
    if len(set(seen)) != len(seen):
        twice = next(each for each in seen if seen.count(each) > 1)
        raise Violation("I2", f"{twice!r} is in {where} twice")
    if unknown := set(seen) - ledger.sent:
        raise Violation("I4", f"{sorted(unknown)[0]!r} is in {where}, and was never sent")
    for name in {each.split()[0] for each in seen}:
        own = [each for each in seen if each.split()[0] == name]
        if own != sorted(own):
            raise Violation("I3", f"the records of {name.decode()} are out of order in {where}")


def check_read(topic: str, partition: int, values: Mapping[int, bytes], ledger: Ledger) -> None:
    """Check that what was read of a partition is still there, and may be read.

    Args:
        topic: The partition's topic.
        partition: The partition.
        values: What may be read of it, by offset.
        ledger: What was read.

    Raises:
        Violation: I5, or for transactions I11, does not hold.
    """
    for (read_topic, number, offset), value in ledger.read.items():
        if (read_topic, number) == (topic, partition) and values.get(offset) != value:
            raise Violation(
                "I5" if topic == ORDERS else "I11",
                f"{value!r} was read at {offset} of {topic}-{partition}, where {values.get(offset)!r} is",
            )


def _check_replicas(world: World) -> None:
    """Check that all replicas of a partition are equal, to the last batch."""
    found: dict[_Place, tuple[int, list[tuple[int, int]]]] = {}
    for number, each in world.replicas():
        place = each["topic"], each["partition"]
        broker = world.cluster.running()[number]  # type: ignore[index]
        log = None if broker.logs is None else broker.logs.get(TopicPartition(*place))
        if log is None or place[0] not in (ORDERS, BILLS):
            continue
        own: list[tuple[int, int]] = [(h.base_offset, h.crc) for h, _ in batches(log, 0, log.high_watermark)]
        other, expected = found.setdefault(place, (number, own))
        shared = min(len(own), len(expected))
        if own[:shared] != expected[:shared]:
            raise Violation("I4", f"brokers {other} and {number} differ in {place[0]}-{place[1]}")


def _leaders_log(world: World, topic: str, partition: int) -> Log:
    for number, each in world.replicas():
        if each["is_leader"] and (each["topic"], each["partition"]) == (topic, partition):
            logs = world.cluster.running()[number].logs  # type: ignore[index]
            log = None if logs is None else logs.get(TopicPartition(topic, partition))
            if log is not None:
                return log
    raise LookupError(f"{topic}-{partition} has no leader")


def _values(log: Log) -> Iterator[tuple[int, bytes]]:
    for header, data in batches(log, 0, log.high_watermark):
        if not header.is_control:
            for record in iter_records(data, 0, header):
                yield record.offset, bytes(record.value or b"")


def committed_values(log: Log) -> dict[int, bytes]:
    """Return the values of a log's committed transactions by offset, by the markers alone."""
    open_values: dict[int, dict[int, bytes]] = {}
    committed: dict[int, bytes] = {}
    for header, data in batches(log, 0, log.high_watermark):
        records = list(iter_records(data, 0, header))
        if not header.is_control:
            values = {int(each.offset): bytes(each.value or b"") for each in records}
            open_values.setdefault(header.producer_id, {}).update(values)
            continue
        ended = open_values.pop(header.producer_id, {})
        if records and read_control_type(records[0].key) is ControlType.COMMIT:
            committed.update(ended)
    return committed
