"""What the checks of simulated runs find."""

import json
from types import SimpleNamespace

import pytest

from cluster.zookeeper.client import Create, SetData
from simulation.soup.checks import Watcher, check_orders, check_read
from simulation.soup.clients import Ledger
from simulation.soup.violation import Violation
from wire.types import ZkVersion

PATH = "/brokers/topics/orders/partitions/0/state"


def ledger(*values: bytes, acknowledged: dict[int, bytes]) -> Ledger:
    return Ledger(
        acknowledged={(0, offset): value for offset, value in acknowledged.items()}, sent=set(values)
    )


def test_records_as_they_were_promised_hold() -> None:
    check_orders(
        0,
        {0: b"ann 0 000001", 1: b"bob 0 000000", 4: b"ann 0 000002"},
        ledger(b"ann 0 000001", b"bob 0 000000", b"ann 0 000002", acknowledged={4: b"ann 0 000002"}),
    )


@pytest.mark.parametrize(
    ("values", "acknowledged", "invariant"),
    [
        ({}, {0: b"ann 0 000001"}, "I1"),
        ({0: b"ann 0 000002"}, {0: b"ann 0 000001"}, "I1"),
        ({0: b"ann 0 000001", 1: b"ann 0 000001"}, {}, "I2"),
        ({0: b"ann 0 000002", 1: b"ann 0 000001"}, {}, "I3"),
        ({0: b"eve 0 000001"}, {}, "I4"),
    ],
)
def test_records_that_break_a_promise_are_found(values, acknowledged, invariant: str) -> None:
    with pytest.raises(Violation) as found:
        check_orders(0, values, ledger(b"ann 0 000001", b"ann 0 000002", acknowledged=acknowledged))
    assert found.value.invariant == invariant


def test_two_records_are_not_acknowledged_at_one_offset() -> None:
    promised = Ledger()
    promised.note_acknowledged(0, 4, b"a")
    promised.note_acknowledged(1, 4, b"b")
    promised.note_acknowledged(0, 4, b"a")
    with pytest.raises(Violation, match="I1: b'a' and then b'c' were acknowledged at 4 of partition 0"):
        promised.note_acknowledged(0, 4, b"c")


def read(*places: tuple[str, int, int, bytes]) -> Ledger:
    return Ledger(read={(topic, partition, offset): value for topic, partition, offset, value in places})


def test_what_was_read_of_other_partitions_is_not_looked_at() -> None:
    check_read(
        "orders", 0, {3: b"a"}, read(("orders", 0, 3, b"a"), ("orders", 1, 3, b"b"), ("bills", 0, 3, b"c"))
    )


@pytest.mark.parametrize(
    ("topic", "values", "invariant"),
    [("orders", {}, "I5"), ("orders", {3: b"b"}, "I5"), ("bills", {2: b"a"}, "I11")],
)
def test_what_was_read_and_may_not_be_is_found(topic: str, values: dict[int, bytes], invariant: str) -> None:
    with pytest.raises(Violation) as found:
        check_read(topic, 0, values, read((topic, 0, 3, b"a")))
    assert found.value.invariant == invariant


def state(leader: int, isr: list[int], epoch: int = 1, controller: int = 1) -> bytes:
    return json.dumps(
        {"leader": leader, "isr": isr, "leader_epoch": epoch, "controller_epoch": controller}
    ).encode()


@pytest.mark.parametrize(
    ("after", "invariant"),
    [
        (state(0, []), "I8"),
        (state(3, [0, 1]), "I8"),
        (state(3, [3], epoch=2), "I8"),
        (state(0, [0, 1], epoch=0), "I6"),
        (state(1, [0, 1], epoch=1), "I6"),
        (state(0, [0, 1], controller=0), "I7"),
    ],
)
def test_a_state_that_may_not_be_written_is_found(after: bytes, invariant: str) -> None:
    watcher = Watcher(SimpleNamespace())
    watcher.written([Create(PATH, state(0, [0, 1]))])
    with pytest.raises(Violation) as found:
        watcher.written([SetData(PATH, after, ZkVersion(0))])
    assert found.value.invariant == invariant


def test_states_that_follow_each_other_hold() -> None:
    watcher = Watcher(SimpleNamespace())
    watcher.written([Create(PATH, state(0, [0, 1]))])
    watcher.written([SetData(PATH, state(1, [1], epoch=2), ZkVersion(0))])
    watcher.written([SetData(PATH, state(-1, [1], epoch=3), ZkVersion(1))])
    watcher.written([SetData(PATH, state(1, [1, 0], epoch=4, controller=2), ZkVersion(2))])
    watcher.written([Create(PATH, state(2, [2, 1], epoch=0, controller=2))])
