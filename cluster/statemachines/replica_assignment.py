"""Which brokers hold the partitions of a new topic: Kafka's rule, so that both make the same assignments.

Goals, in this order: leaders are spread evenly; the followers of the partitions that one broker leads are
spread over the others; every rack gets a replica before any rack gets two.

Without racks, the brokers stand in a ring, in the order of their ids. The leader of partition p is p steps
from a start; its followers begin ``shift`` steps after the leader, and ``shift`` grows each time the leaders
have gone around the ring. With brokers 0 to 4, start 2 and shift 1:

====  =========    ====  =========
p     replicas     p     replicas
====  =========    ====  =========
0     2, 4, 0      5     2, 0, 1
1     3, 0, 1      6     3, 1, 2
2     4, 1, 2      7     4, 2, 3
3     0, 2, 3      8     0, 3, 4
4     1, 3, 4      9     1, 4, 0
====  =========    ====  =========

With racks, the ring takes one broker of each rack in turn, and a follower is skipped while its rack has a
replica and another rack has none, or while it holds the partition itself and another broker does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from wire.errors import ApiError, Error
from wire.types import BrokerId


@dataclass(frozen=True, slots=True)
class BrokerRack:
    """A broker that can hold replicas, and its rack, if it has one."""

    broker_id: BrokerId
    rack: str | None = None


def assign_replicas(
    brokers: Sequence[BrokerRack],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Assign replicas to brokers.

    Racks count if any broker has one; then all must.

    Args:
        brokers: The candidates, in any order.
        partition_count: How many partitions to assign.
        replication_factor: How many replicas each gets.
        start: Where in the ring partition 0 starts; see ``random_placement``.
        shift: How far after the leader the followers begin.
        first_partition: The number of the first partition to assign, when partitions are added.

    Returns:
        The replicas by partition number, the preferred leader first.

    Raises:
        ApiError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or UNKNOWN_SERVER_ERROR where only some
            brokers name a rack (``without_partial_racks`` avoids it).
    """
    if partition_count <= 0:
        raise ApiError(Error.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(Error.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise ApiError(
            Error.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        raise ApiError(
            Error.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    ring = alternate_racks(racks) if racks else sorted(broker.broker_id for broker in brokers)
    assigned: dict[int, tuple[BrokerId, ...]] = {}
    for partition in range(max(0, first_partition), max(0, first_partition) + partition_count):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        leader_at = (partition + start) % len(ring)
        if racks:
            assigned[partition] = _place_over_racks(ring, racks, replication_factor, leader_at, shift)
        else:
            assigned[partition] = _place(ring, replication_factor, leader_at, shift)
    return assigned


def random_placement(broker_count: int, random: Random) -> tuple[int, int]:
    """Choose a start and a shift, so that the first partitions of many topics do not meet on one broker."""
    return random.randrange(broker_count), random.randrange(broker_count)


def without_partial_racks(brokers: Sequence[BrokerRack]) -> list[BrokerRack]:
    """Drop the racks unless every broker has one: automatic topic creation does this rather than fail."""
    if all(broker.rack is not None for broker in brokers):
        return list(brokers)
    return [BrokerRack(broker.broker_id) for broker in brokers]


def alternate_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Order brokers so that neighbours are in different racks as long as possible.

    One broker of each rack in turn, racks by name and brokers by id; a rack that has run out is skipped.
    """
    by_rack: dict[str, list[BrokerId]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker_id for one_round in rounds for broker_id in one_round if broker_id is not None]


def _follower_at(leader_at: int, shift: int, attempt: int, ring_size: int) -> int:
    # One place in the ring is the leader's: the others are counted from the one after it.
    return (leader_at + 1 + (shift + attempt) % (ring_size - 1)) % ring_size


def _place(
    ring: Sequence[BrokerId], replication_factor: int, leader_at: int, shift: int
) -> tuple[BrokerId, ...]:
    followers = (
        ring[_follower_at(leader_at, shift, attempt, len(ring))] for attempt in range(replication_factor - 1)
    )
    return (ring[leader_at], *followers)


def _place_over_racks(
    ring: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    replication_factor: int,
    leader_at: int,
    shift: int,
) -> tuple[BrokerId, ...]:
    rack_count = len(set(racks.values()))
    replicas = [ring[leader_at]]
    used_racks = {racks[ring[leader_at]]}
    attempt = 0
    # The loop ends: len(ring) - 1 consecutive attempts try each broker but the leader once, and while replicas are
    # missing one of these is acceptable.
    while len(replicas) < replication_factor:
        candidate = ring[_follower_at(leader_at, shift * rack_count, attempt, len(ring))]
        attempt += 1
        rack = racks[candidate]
        if rack in used_racks and len(used_racks) < rack_count:
            continue
        if candidate in replicas and len(replicas) < len(ring):
            continue
        replicas.append(candidate)
        used_racks.add(rack)
    return tuple(replicas)
