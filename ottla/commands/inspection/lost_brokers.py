"""Brokers that hold replicas and are registered nowhere: dead ones, and those that were removed for good."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from wire.types import BrokerId, TopicPartition

_NAMED_MAX: Final = 3


def lost_brokers(
    live: Collection[BrokerId], replicas: Iterable[tuple[TopicPartition, Sequence[BrokerId]]]
) -> dict[BrokerId, list[TopicPartition]]:
    """Return the brokers that do not live, with the partitions that they hold, both sorted.

    Args:
        live: The brokers that are registered.
        replicas: The replicas of each partition.
    """
    held: dict[BrokerId, list[TopicPartition]] = {}
    for partition, brokers in replicas:
        for broker_id in brokers:
            if broker_id not in live:
                held.setdefault(broker_id, []).append(partition)
    return {broker_id: sorted(held[broker_id]) for broker_id in sorted(held)}


def held_text(partitions: Sequence[TopicPartition]) -> str:
    """Write how many replicas a broker holds, and of which partitions the first are."""
    count = len(partitions)
    named = ", ".join(map(str, partitions[:_NAMED_MAX])) + (", ..." if count > _NAMED_MAX else "")
    return f"registered nowhere, but holds {count} replica{'' if count == 1 else 's'} ({named})"


def lost_advice(broker_id: BrokerId) -> str:
    """Say what to do about such a broker."""
    return (
        f"start it again; or, where it is gone for good, move its replicas: "
        f"ottla reassign-partitions --plan --remove-brokers {broker_id}"
    )
