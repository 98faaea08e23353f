"""A flow from one cluster to another: topics in step, records copied, groups translated, until it is cancelled."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from ottla.client import ClientError, DeliveryErrors, Kafka
from ottla.client.admin import NewTopic
from ottla.mirror.access import AccessKeeper
from ottla.mirror.copying import Copying, CopySettings
from ottla.mirror.counters import MirrorCounters
from ottla.mirror.formats import HEARTBEATS, Heartbeat, checkpoints_topic, offset_syncs_topic
from ottla.mirror.forwarding import Forwarder, Handler
from ottla.mirror.groups import GroupKeeper
from ottla.mirror.offset_map import OffsetMap
from ottla.mirror.selection import Selection, TopicChange, internal_factor
from ottla.mirror.syncs import OffsetSyncs
from ottla.mirror.throttle import Throttle
from ottla.mirror.topics import TopicKeeper
from timing.clock import Clock

_log = logging.getLogger(__name__)
_COMPACTED: Final = {"cleanup.policy": "compact"}
_RETRIED: Final = (ClientError, DeliveryErrors)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """What a flow does besides copying; times in seconds.

    Attributes:
        copying: How records are moved.
        abort_on_failure: Whether a refused record ends the flow.
        throttle: Bytes a second; None for no bound.
        refresh_interval: How often topics are looked at.
        groups_interval: How often groups are translated.
        keeps_topics: Whether topics are created and kept in step.
        keeps_groups: Whether groups' offsets are set at the target.
        checkpoints: Whether syncs, checkpoints and heartbeats are written.
        offset_lag_max: How far a sync may be behind, in records.
        replication_factor: Of the target's copies of topics; -1 for the target's default.
        keeps_acls: Whether access rules of topics are added at the target.
        keeps_quotas: Whether quotas are set at the target.
        internal_replication_factor: Of syncs, checkpoints and heartbeats; None for as many as a cluster has room for.
    """

    copying: CopySettings
    abort_on_failure: bool
    throttle: float | None
    refresh_interval: float
    groups_interval: float
    keeps_topics: bool
    keeps_groups: bool
    checkpoints: bool
    offset_lag_max: int
    replication_factor: int
    internal_replication_factor: int | None = None
    keeps_acls: bool = False
    keeps_quotas: bool = False


class MirrorFlow:
    """One flow.

    Args:
        source: Where records come from.
        target: Where they go.
        selection: What is mirrored.
        settings: How.
        clock: For heartbeats.
        handler: Makes the target's records from the source's; None copies them.

    Attributes:
        counters: What it has done so far.
    """

    def __init__(
        self,
        source: Kafka,
        target: Kafka,
        selection: Selection,
        settings: FlowSettings,
        clock: Clock,
        handler: Handler | None = None,
    ) -> None:
        self.counters = MirrorCounters()
        self._source = source
        self._target = target
        self._source_admin = source_admin = source.admin
        self._target_admin = target_admin = target.admin
        self._selection = selection
        self._settings = settings
        self._clock = clock
        self._offsets = OffsetMap()
        self._topics = TopicKeeper(
            source_admin, target_admin, selection, replication_factor=settings.replication_factor
        )
        self._access = AccessKeeper(
            source_admin, target_admin, selection, acls=settings.keeps_acls, quotas=settings.keeps_quotas
        )
        self._groups = GroupKeeper(
            source_admin,
            target_admin,
            selection,
            self._offsets,
            self.counters,
            settings.copying.group,
            sets_offsets=settings.keeps_groups,
        )
        self._syncs = OffsetSyncs(
            source, offset_syncs_topic(selection.target), self._offsets, settings.offset_lag_max
        )
        forwarder = Forwarder(
            selection,
            self._offsets,
            self.counters,
            Throttle(settings.throttle, trio.current_time()),
            handler,
            abort_on_failure=settings.abort_on_failure,
        )
        self._copying = Copying(source, target, selection, forwarder, self.counters, settings.copying)

    async def plan(self) -> tuple[dict[str, int], list[TopicChange]]:
        """Return the partitions of each mirrored topic of the source, and the changes that the target's topics need."""
        return await self._topics.look()

    async def run(self) -> None:
        """Mirror until cancelled, or until the end where the settings say so.

        Raises:
            ProducerFenced: Another flow with this group has taken over.
            ClientError: A cluster refuses a request for good.
            ValueError: Likewise.
        """
        settings = self._settings
        if settings.checkpoints:
            await self._make_internal_topics()
            await self._syncs.read()
        topics = await self._keep_topics()
        async with trio.open_nursery() as nursery:
            if settings.checkpoints:
                nursery.start_soon(self._keep_groups)
            while True:
                topics = await self._copy_until_changed(topics)
                if not topics:
                    break
            nursery.cancel_scope.cancel()
        if settings.checkpoints:
            await self._write_positions()

    async def _make_internal_topics(self) -> None:
        selection = self._selection
        for admin, names in (
            (self._source_admin, [offset_syncs_topic(selection.target)]),
            (self._target_admin, [checkpoints_topic(selection.source), HEARTBEATS]),
        ):
            live = len((await admin.refresh()).brokers)
            factor = internal_factor(self._settings.internal_replication_factor, live)
            await admin.create_topics([NewTopic(name, 1, factor, configs=_COMPACTED) for name in names])

    async def _keep_topics(self) -> dict[str, int]:
        """Bring the target's topics, rules and quotas in step; return the source's topics."""
        topics, changes = await self._topics.look()
        if self._settings.keeps_topics:
            for change in await self._topics.apply(changes):
                _log.info("topic %s", change)
        else:
            missing = [each.topic for each in changes if each.create or each.grow]
            if missing:
                raise ClientError(f"the target lacks topics or partitions: {', '.join(missing)}")
        await self._access.keep()
        return topics

    async def _copy_until_changed(self, topics: dict[str, int]) -> dict[str, int]:
        """Copy until the source's topics change, and return them; return none if the end was reached."""
        changed: dict[str, int] = {}
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while True:
                    await trio.sleep(self._settings.refresh_interval)
                    try:
                        found = await self._keep_topics()
                    except _RETRIED as error:
                        _log.warning("topics are looked at again later: %s", error)
                        continue
                    if found != topics:
                        changed.update(found)
                        nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            if topics:
                await self._copying.run(topics)
            elif self._settings.copying.until_end:
                pass
            else:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
        return changed

    async def _keep_groups(self) -> None:
        while True:
            await trio.sleep(self._settings.groups_interval)
            try:
                await self._write_positions()
            except _RETRIED as error:
                _log.warning("groups are translated again later: %s", error)

    async def _write_positions(self) -> None:
        async with self._source.producer() as out:
            await self._syncs.write(out, self._syncs.due())
        async with self._target.producer() as out:
            await self._groups.sync(out, checkpoints_topic(self._selection.source))
            beat = Heartbeat(self._selection.source, self._selection.target, self._clock.wall_ms())
            key, value = beat.encode()
            await out.send(HEARTBEATS, value, key=key, partition=0)


def describe(topics: dict[str, int], changes: Sequence[TopicChange]) -> list[str]:
    """Return the lines of a plan."""
    count = sum(topics.values())
    lines = [f"{len(topics)} topics with {count} partitions are mirrored"]
    return lines + [str(each) for each in changes]
