"""Fetches of records that are no longer in memory: what the look-up will touch is read off the loop first."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from cluster.replication.leader.fetch_session import FetchSession
from storage.cold_reads import ColdPlace

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.roles.hosted_partitions import HostedPartitions
    from timing.clock import Clock


class ColdFetches:
    """Finds the fetches that would wait for a disk, and waits off the loop.

    Args:
        hosted: The partitions.
        metadata: Resolves topic ids that a session named before this broker knew them.
        clock: Measures how long ago an index was used.
        offload: Runs reads off the loop.
    """

    def __init__(
        self,
        hosted: "HostedPartitions",
        metadata: "MetadataCache",
        clock: "Clock",
        offload: Callable[[Callable[[], object]], Awaitable[object]],
    ) -> None:
        self._hosted = hosted
        self._metadata = metadata
        self._clock = clock
        self._offload = offload

    def places(self, session: FetchSession) -> list[ColdPlace]:
        """Return what to read before a session's fetch; nothing if all of it is in memory."""
        now = self._clock.monotonic()
        found = []
        for item in session.dirty:
            if item.topic_partition is None:
                item.resolve(self._metadata.snapshot.topic_names)
            partition = None if item.topic_partition is None else self._hosted.get(item.topic_partition)
            if partition is None or partition.log is None:
                continue
            place = partition.log.cold_place(item.fetch_offset, now)
            if place is not None:
                found.append(place)
        return found

    async def read(self, places: Sequence[ColdPlace]) -> None:
        """Read these places, in a thread."""
        await self._offload(lambda: [place.read() for place in places])
