"""Writing the markers that end transactions to the partitions that this broker leads.

A marker ends whatever its producer has open in a partition. Writing it again does no harm, so coordinators repeat it
until it is acknowledged: by every in-sync replica, and in ``__consumer_offsets`` by the group coordinator, whose held
offsets are visible before the response leaves (KAFKA-17507).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cluster.coordinator.offset_commits import OffsetCommits
from cluster.replication.partition.leader import ACKS_ALL
from storage.log import AppendOrigin
from wire.errors import Error
from wire.internal_topics import CONSUMER_OFFSETS
from wire.records.end_transaction import build_end_transaction_marker
from wire.types import ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from cluster.replication.leader.delayed_produce import ProduceResults
    from cluster.replication.replicas import Replicas
    from timing.clock import Clock


class Marker(NamedTuple):
    """The end of one producer's transaction in some partitions."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]


OnMarked = Callable[[Sequence[dict[TopicPartition, Error]]], None]
"""Called with the outcome for each partition of each marker."""


class MarkerWrites:
    """Appends markers.

    Args:
        replicas: The broker's partitions.
        offsets: The offsets of groups, some held by transactions.
        clock: Wall time.
        timeout_ms: ``request.timeout.ms``: how long the in-sync replicas may take.
    """

    def __init__(self, replicas: "Replicas", offsets: OffsetCommits, clock: "Clock", timeout_ms: int) -> None:
        self._replicas = replicas
        self._offsets = offsets
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(self, markers: Sequence[Marker], on_done: OnMarked) -> None:
        """Write markers; ``on_done`` is called once, within this call or later, when all outcomes are known."""
        outcomes: list[dict[TopicPartition, Error]] = [{} for _ in markers]
        left = sum(len(set(marker.partitions)) for marker in markers)
        if not left:
            on_done(outcomes)
            return

        def settle(place: dict[TopicPartition, Error], settled: dict[TopicPartition, Error]) -> None:
            nonlocal left
            place.update(settled)
            left -= len(settled)
            if not left:
                on_done(outcomes)

        for marker, place in zip(markers, outcomes, strict=True):
            self._write(marker, lambda settled, place=place: settle(place, settled))  # type: ignore[misc]

    def _write(self, marker: Marker, settle: Callable[[dict[TopicPartition, Error]], None]) -> None:
        batch = build_end_transaction_marker(
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._clock.wall_ms(),
        )
        partitions = dict.fromkeys(marker.partitions)

        def done(results: "ProduceResults") -> None:
            settle({at: result.error for at, result in results.items()})

        plain = [(at, bytearray(batch)) for at in partitions if at.topic != CONSUMER_OFFSETS]
        if plain:
            self._replicas.append(
                plain,
                ACKS_ALL,
                self._timeout_ms,
                done,
                origin=AppendOrigin.COORDINATOR,
                internal_topics_allowed=True,
            )
        for at in partitions:
            if at.topic == CONSUMER_OFFSETS:
                self._offsets.write_marker(
                    at.partition,
                    marker.producer_id,
                    bytearray(batch),
                    lambda error, at=at: settle({at: error}),  # type: ignore[misc]
                    commit=marker.committed,
                )
