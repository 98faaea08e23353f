"""Repeated measurements, with their histories: ends of partitions, sizes on disks, the lag of groups.

Each kind has a task of its own, whose pauses are a multiple of what its last round took. Ends and sizes are read while
pages are looked at; lag always, since its history matters most.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from ottla.client.admin import FoundOffset, GroupDescription, ListedGroup, LogDirectory
from ottla.commands.groups.positions import PositionRow, positions
from ottla.web.answers import Answer, attempt
from ottla.web.connection import ClusterConnection
from ottla.web.models.groups import GroupLag
from ottla.web.models.series import Counter, Series
from ottla.web.watch import ClusterWatch
from timing.clock import Clock
from wire.types import BrokerId, Offset, TopicPartition

ENDS_PAUSE_S: Final = 4.0
DISKS_PAUSE_S: Final = 10.0
GROUPS_PAUSE_S: Final = 10.0
PAUSE_COSTS: Final = 15
GROUPS_MAX: Final = 500
"""The most groups whose lag is followed, in the order of their names."""
PARTITION_HISTORIES_MAX: Final = 5_000
"""The most partitions whose lag is followed individually."""
_ENDS_CHUNK: Final = 1_000
"""How many partitions are asked for at a time, so that pages are served in between."""
_CALL_TIMEOUT_S: Final = 20.0


class Samples:
    """Measures, in tasks of `run`.

    Args:
        connection: The client.
        watch: Knows the topics, and whether pages are looked at.
        clock: The time.

    Attributes:
        ends: The ends of partitions.
        rates: Records a second, by topic.
        rate: Records a second, of all topics, over time.
        directories: The log directories of each broker, or why they are not known.
        sizes: Bytes of each replica.
        groups: The lag of each group.
        listed: The groups, or why they are not known.
    """

    def __init__(self, connection: ClusterConnection, watch: ClusterWatch, clock: Clock) -> None:
        self.ends: dict[TopicPartition, Offset] = {}
        self.rates: dict[str, Series] = {}
        self.rate = Series()
        self.directories: dict[BrokerId, Answer[list[LogDirectory]]] = {}
        self.sizes: dict[TopicPartition, dict[BrokerId, int]] = {}
        self.groups: dict[str, GroupLag] = {}
        self.listed: Answer[list[ListedGroup]] = Answer(None, "The groups have not been listed yet.")
        self.has_sizes = False
        self._connection = connection
        self._watch = watch
        self._clock = clock
        self._counters: dict[str, Counter] = {}
        self._total = Counter()

    async def run(self) -> None:
        """Measure until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._again, self.sample_ends, ENDS_PAUSE_S)
            nursery.start_soon(self._again, self.sample_disks, DISKS_PAUSE_S)
            nursery.start_soon(self._again, self.sample_groups, GROUPS_PAUSE_S)

    async def _again(self, sample: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            began = self._clock.monotonic()
            await attempt(sample, _CALL_TIMEOUT_S)
            cost = self._clock.monotonic() - began
            await trio.sleep(max(0.5 if self._watch.seen is None else pause_s, PAUSE_COSTS * cost))

    async def sample_ends(self) -> None:
        """Read where partitions end, and how fast topics grow."""
        seen = self._watch.seen
        if seen is None or (not self._watch.is_looked_at and self.ends):
            return
        wanted = [
            TopicPartition(topic.name, each.partition)
            for topic in seen.topics.values()
            for each in topic.partitions
            if each.leader >= 0
        ]
        ends: dict[TopicPartition, Offset] = {}
        for first in range(0, len(wanted), _ENDS_CHUNK):
            asked = dict.fromkeys(wanted[first : first + _ENDS_CHUNK], -1)
            found = await self._connection.admin.list_offsets(asked)
            ends |= {at: each.offset for at, each in found.items() if isinstance(each, FoundOffset)}
        # A partition without a leader for a moment has not lost its records.
        self.ends = {at: end for at, end in self.ends.items() if at.topic in seen.topics} | ends
        self._note_rates(self._clock.monotonic(), self._clock.wall_ms() / 1000)

    def _note_rates(self, now: float, wall_s: float) -> None:
        totals: dict[str, int] = {}
        for at, end in self.ends.items():
            totals[at.topic] = totals.get(at.topic, 0) + end
        for topic, total in totals.items():
            rate = self._counters.setdefault(topic, Counter()).observe(now, total)
            if rate is not None:
                self.rates.setdefault(topic, Series()).add(wall_s, rate)
        for topic in self._counters.keys() - totals.keys():
            del self._counters[topic]
            self.rates.pop(topic, None)
        known = [counter.rate for counter in self._counters.values() if counter.rate is not None]
        if known:
            self.rate.add(wall_s, sum(known))

    async def sample_disks(self) -> None:
        """Read the sizes of replicas on the brokers' disks."""
        seen = self._watch.seen
        if seen is None or (not self._watch.is_looked_at and self.has_sizes):
            return
        admin = self._connection.admin
        directories: dict[BrokerId, Answer[list[LogDirectory]]] = {}
        for broker_id in sorted(seen.cluster.brokers):

            async def ask(broker_id: BrokerId = broker_id) -> list[LogDirectory]:
                return await admin.describe_log_dirs(broker_id)

            directories[broker_id] = await attempt(ask)
        self.directories = directories
        self.sizes = replica_sizes(
            {broker: answer.value for broker, answer in directories.items() if answer.value is not None}
        )
        self.has_sizes = True

    async def sample_groups(self) -> None:
        """Read the lag of groups."""
        admin = self._connection.admin
        self.listed = await attempt(admin.list_groups)
        if self.listed.value is None:
            return
        names = [each.group_id for each in self.listed.value[:GROUPS_MAX]]
        for gone in self.groups.keys() - set(names):
            del self.groups[gone]
        for name in names:

            async def ask(name: str = name) -> tuple[GroupDescription, list[PositionRow]]:
                group = await admin.describe_group(name)
                return group, await positions(admin, group, await admin.committed_offsets(name))

            found = await attempt(ask)
            if found.value is not None:
                self.note_lag(name, found.value[1])

    def note_lag(self, group_id: str, rows: list[PositionRow]) -> None:
        """Add a group's positions to its history."""
        lag = self.groups.setdefault(group_id, GroupLag())
        now = self._clock.wall_ms() / 1000
        known = [row.lag for row in rows if row.lag is not None]
        lag.rows, lag.total = rows, sum(known) if known else None
        if lag.total is not None:
            lag.history.add(now, lag.total)
        followed = sum(len(each.partitions) for each in self.groups.values())
        for row in rows:
            at = TopicPartition(row.topic, row.partition)
            if row.lag is not None and (at in lag.partitions or followed < PARTITION_HISTORIES_MAX):
                followed += at not in lag.partitions
                lag.partitions.setdefault(at, Series()).add(now, row.lag)
        for gone in lag.partitions.keys() - {TopicPartition(row.topic, row.partition) for row in rows}:
            del lag.partitions[gone]


def replica_sizes(
    directories: Mapping[BrokerId, list[LogDirectory]],
) -> dict[TopicPartition, dict[BrokerId, int]]:
    """Return the bytes of each replica by partition and broker; future replicas are left out."""
    sizes: dict[TopicPartition, dict[BrokerId, int]] = {}
    for broker, found in directories.items():
        for directory in found:
            for replica in directory.replicas:
                if not replica.is_future:
                    at = TopicPartition(replica.topic, replica.partition)
                    sizes.setdefault(at, {})[broker] = replica.size_bytes
    return sizes
