"""Assembles the groups of one broker: settings in; coordinator, offsets, administration and loader out."""

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from cluster.coordinator.coordinator_topic import CoordinatorTopic
from cluster.coordinator.group_admin import GroupAdmin
from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_pieces import GROUPS
from cluster.coordinator.group_settings import GroupSettings
from cluster.coordinator.group_takeover import GroupTakeover
from cluster.coordinator.hosted_groups import HostedGroups
from cluster.coordinator.offset_commits import OffsetCommits
from cluster.coordinator.offsets_log import OffsetsLog
from cluster.coordinator.partition_loader import PartitionLoader
from cluster.statemachines.group import GroupState
from wire.internal_topics import CONSUMER_OFFSETS
from wire.records.compression import Compression
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.replicas import Replicas
    from timing.clock import Clock
    from timing.timing_wheel import Timer

_CHANGES_AT_STOP_MIN: Final = 500


class Groups:
    """Everything about groups that requests and the broker's tasks reach.

    Args:
        config: The broker's settings.
        replicas: Its partitions, whose callbacks are set here.
        metadata: Knows how many partitions ``__consumer_offsets`` has.
        timer: Runs the timeouts of members.
        clock: Both clocks.
        nursery: Where loads run; ends with the broker.
        offload: Runs reads of files outside the loop.

    Attributes:
        coordinator: Membership.
        offsets: Commits and fetches of offsets.
        admin: Descriptions, deletion, expiry.
    """

    def __init__(
        self,
        config: "BrokerConfig",
        replicas: "Replicas",
        metadata: "MetadataCache",
        timer: "Timer",
        clock: "Clock",
        nursery: trio.Nursery,
        offload: Callable[[Callable[[], object]], Awaitable[object]] = trio.to_thread.run_sync,
    ) -> None:
        self._topic = CoordinatorTopic(
            CONSUMER_OFFSETS, config.offsets_topic_num_partitions, metadata, replicas
        )
        settings = group_settings(config)
        self.coordinator = GroupCoordinator(
            settings,
            HostedGroups(lambda: self._topic.partition_count, self._topic.leads),
            OffsetsLog(
                replicas,
                acks=config.offsets_commit_required_acks,
                timeout_ms=config.offsets_commit_timeout_ms,
                compression=Compression(config.offsets_topic_compression_codec),
            ),
            timer,
            clock,
            lambda: str(uuid.uuid4()),
        )
        self.offsets = OffsetCommits(self.coordinator)
        self.admin = GroupAdmin(self.coordinator)
        self._loader = PartitionLoader(
            CONSUMER_OFFSETS,
            replicas,
            self.coordinator.hosted.led,
            GroupTakeover(self.coordinator),
            GROUPS,
            clock,
            nursery,
            settings.load_buffer_size,
            offload,
        )
        replicas.roles.on_leadership_change.append(self._loader.leadership_changed)
        replicas.roles.on_stopped.append(self._loader.stopped)
        replicas.roles.on_deleted.append(self._topics_deleted)

    @property
    def partition_count(self) -> int:
        """How many partitions ``__consumer_offsets`` has."""
        return self._topic.partition_count

    def found(self, partition_count: int | None) -> None:
        """Note the partition count of ``__consumer_offsets`` at the broker's start; None if the topic is absent."""
        self._topic.found(partition_count)

    async def run(self) -> None:
        """Follow the partitions that others lead, and drop what has expired, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._loader.follow, name="followed groups")
            nursery.start_soon(self._expire, name="expiry of offsets")

    async def stop(self) -> None:
        """Write snapshots, so that the next start need not read whole logs. Cancelled, it has written some of them."""
        await self._loader.write_snapshots(least=_CHANGES_AT_STOP_MIN, rest_s=0.0)

    def count_by_state(self) -> Counter[str]:
        """Count the groups that are coordinated here, by the names of all states."""
        counts = Counter(dict.fromkeys((state.value for state in GroupState), 0))
        counts.update(hosted.group.state.value for hosted in self.coordinator.hosted.groups())
        return counts

    def offset_count(self) -> int:
        """Count the offsets that these groups have committed."""
        return sum(len(hosted.offsets) for hosted in self.coordinator.hosted.groups())

    def describe(self) -> dict[str, Any]:
        """Describe the groups that are coordinated here, as plain values."""
        partitions = tuple(self.coordinator.hosted.led)
        return {
            "groups": dict(self.count_by_state()),
            "offsets": self.offset_count(),
            "partitions": sorted(each.number for each in partitions),
            "loading": sorted(each.number for each in partitions if each.is_loading),
        }

    async def _expire(self) -> None:
        while True:
            await trio.sleep(self.coordinator.settings.offsets_retention_check_ms / 1000)
            await self.admin.expire()

    def _topics_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        if any(partition.topic == CONSUMER_OFFSETS for partition in partitions):
            self._topic.deleted()
        self.admin.partitions_deleted(partitions)


def group_settings(config: "BrokerConfig") -> GroupSettings:
    """Return the coordinator's settings from a broker's."""
    return GroupSettings(
        session_timeout_min_ms=config.group_min_session_timeout_ms,
        session_timeout_max_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_ms=config.offsets_retention_check_interval_ms,
        load_buffer_size=config.offsets_load_buffer_size,
    )
