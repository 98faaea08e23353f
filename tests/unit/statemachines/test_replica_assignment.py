"""The assignment rule against worked examples and its goals."""

from collections import Counter
from random import Random

import pytest

from cluster.statemachines.replica_assignment import (
    BrokerRack,
    alternate_racks,
    assign_replicas,
    random_placement,
    without_partial_racks,
)
from wire.errors import ApiError, Error
from wire.types import BrokerId

RACKS_B = {0: "r1", 1: "r1", 2: "r2", 3: "r2", 4: "r3"}
RACKS_C = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
VECTOR_A = {
    0: (2, 4, 0),
    1: (3, 0, 1),
    2: (4, 1, 2),
    3: (0, 2, 3),
    4: (1, 3, 4),
    5: (2, 0, 1),
    6: (3, 1, 2),
    7: (4, 2, 3),
    8: (0, 3, 4),
    9: (1, 4, 0),
}
VECTOR_B = {
    0: (4, 2, 1),
    1: (1, 4, 3),
    2: (3, 1, 4),
    3: (0, 3, 4),
    4: (2, 0, 4),
    5: (4, 0, 2),
    6: (1, 2, 4),
    7: (3, 4, 1),
    8: (0, 3, 4),
    9: (2, 0, 4),
}
VECTOR_C = {
    0: (0, 3, 1),
    1: (3, 1, 5),
    2: (1, 5, 4),
    3: (5, 4, 2),
    4: (4, 2, 0),
    5: (2, 0, 3),
    6: (0, 4, 2),
}


def racked(racks: dict[int, str]) -> list[BrokerRack]:
    return [BrokerRack(BrokerId(broker_id), rack) for broker_id, rack in racks.items()]


def plain(count: int) -> list[BrokerRack]:
    return [BrokerRack(BrokerId(broker_id)) for broker_id in reversed(range(count))]


def test_without_racks() -> None:
    assert assign_replicas(plain(5), 10, 3, start=2, shift=1) == VECTOR_A


def test_with_racks() -> None:
    assert alternate_racks(dict(RACKS_B)) == [0, 2, 4, 1, 3]  # type: ignore[arg-type]
    assert assign_replicas(racked(RACKS_B), 10, 3, start=2, shift=1) == VECTOR_B
    assert alternate_racks(dict(RACKS_C)) == [0, 3, 1, 5, 4, 2]  # type: ignore[arg-type]
    assert assign_replicas(racked(RACKS_C), 7, 3, start=0, shift=0) == VECTOR_C


def test_added_partitions_go_on_in_the_ring() -> None:
    whole = assign_replicas(plain(5), 4, 3, start=2, shift=1)
    added = assign_replicas(plain(5), 2, 3, start=2, shift=1, first_partition=2)
    assert added == {partition: whole[partition] for partition in (2, 3)}


def test_one_broker() -> None:
    assert assign_replicas(plain(1), 3, 1, start=0, shift=0) == {0: (0,), 1: (0,), 2: (0,)}


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 4, 5, 6])
def test_goals(replication_factor: int) -> None:
    brokers = racked(RACKS_C)
    start, shift = random_placement(len(brokers), Random(1))
    assigned = assign_replicas(brokers, 12, replication_factor, start=start, shift=shift)
    assert set(Counter(replicas[0] for replicas in assigned.values()).values()) == {2}
    for replicas in assigned.values():
        assert len(set(replicas)) == replication_factor
        assert len({RACKS_C[replica] for replica in replicas}) == min(3, replication_factor)


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "error"),
    [
        (plain(3), 0, 1, Error.INVALID_PARTITIONS),
        (plain(3), 1, 0, Error.INVALID_REPLICATION_FACTOR),
        (plain(3), 1, 4, Error.INVALID_REPLICATION_FACTOR),
        ([*plain(2), BrokerRack(BrokerId(2), "r")], 1, 1, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refusals(brokers: list[BrokerRack], partitions: int, factor: int, error: Error) -> None:
    with pytest.raises(ApiError) as caught:
        assign_replicas(brokers, partitions, factor, start=0, shift=0)
    assert caught.value.error is error


def test_partial_racks_are_dropped() -> None:
    mixed = [BrokerRack(BrokerId(0)), BrokerRack(BrokerId(1), "r")]
    assert without_partial_racks(mixed) == [BrokerRack(BrokerId(0)), BrokerRack(BrokerId(1))]
    assert without_partial_racks(racked(RACKS_C)) == racked(RACKS_C)
