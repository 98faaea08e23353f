"""A group's offsets in ZooKeeper, in Kafka, or in both, and their migration from the one to the other."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import trio

from ottla.client import ClientError
from ottla.client.admin import Admin, CommittedPosition
from ottla.old_consumer.group_znodes import GroupZnodes
from ottla.old_consumer.settings import OldConsumerSettings, Storage
from wire.errors import Error
from wire.types import Offset, TopicPartition

_log = logging.getLogger(__name__)


class OffsetCommitFailed(Exception):
    """Offsets were not committed, after all retries; they are committed with the next commit."""


def farthest(
    zookeeper: Mapping[TopicPartition, Offset], kafka: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Offset]:
    """Return the greater one of the two offsets of each partition.

    While a group moves, some of its consumers commit to ZooKeeper alone and others to both: each store may be behind.
    """
    return {
        place: max(offsets[place] for offsets in (zookeeper, kafka) if place in offsets)
        for place in sorted(zookeeper.keys() | kafka.keys())
    }


@dataclass(frozen=True, slots=True)
class MigratedOffset:
    """The offset of one partition of a group, on its way from ZooKeeper to Kafka.

    Attributes:
        zookeeper: The offset in ZooKeeper.
        kafka: The offset in Kafka, None where there is none.
    """

    zookeeper: Offset
    kafka: Offset | None

    @property
    def after(self) -> Offset:
        """The offset in Kafka afterwards: it never goes back."""
        return self.zookeeper if self.kafka is None else max(self.zookeeper, self.kafka)

    @property
    def changes(self) -> bool:
        """Whether there is something to commit."""
        return self.kafka != self.after


def plan_migration(
    zookeeper: Mapping[TopicPartition, Offset], kafka: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, MigratedOffset]:
    """Return the migration of each offset that a group has in ZooKeeper, where all stay, for the way back."""
    return {place: MigratedOffset(offset, kafka.get(place)) for place, offset in sorted(zookeeper.items())}


class GroupOffsets:
    """The offsets of one group, by a consumer's settings.

    Args:
        znodes: The group in ZooKeeper.
        settings: Where offsets are.
    """

    def __init__(self, znodes: GroupZnodes, settings: OldConsumerSettings) -> None:
        self._znodes = znodes
        self._settings = settings
        self._in_zookeeper: dict[TopicPartition, int] = {}
        self._in_kafka: dict[TopicPartition, int] = {}

    async def fetch(self, admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return where the group is; partitions without an offset are left out.

        Raises:
            ClientError: The coordinator refuses, or cannot be reached in time.
        """
        settings = self._settings
        if settings.offsets_storage is Storage.ZOOKEEPER:
            found = await self._znodes.offsets_of(places)
            self._in_zookeeper = dict(found)
            return found
        committed = await admin.committed_offsets(settings.group_id)
        kafka = {place: committed[place].offset for place in places if place in committed}
        self._in_kafka = dict(kafka)
        if not settings.is_dual:
            return kafka
        zookeeper = await self._znodes.offsets_of(places)
        self._in_zookeeper = dict(zookeeper)
        return farthest(zookeeper, kafka)

    async def commit(
        self, admin: Admin | None, offsets: Mapping[TopicPartition, int], *, retries: bool
    ) -> None:
        """Commit what differs from what was committed last.

        Args:
            admin: The cluster; None where it cannot be reached.
            offsets: The next offset of each partition.
            retries: Whether a failure is repeated, after `offsets_channel_backoff`.

        Raises:
            OffsetCommitFailed: Kafka still refused some of them after the retries.
        """
        if self._settings.offsets_storage is Storage.ZOOKEEPER:
            await self._commit_to_zookeeper(offsets)
            return
        due = {place: offset for place, offset in offsets.items() if self._in_kafka.get(place) != offset}
        attempts = 1 + (self._settings.offsets_commit_max_retries if retries else 0)
        for attempt in range(attempts):
            if attempt:
                await trio.sleep(self._settings.offsets_channel_backoff)
            due = await self._commit_to_kafka(admin, due)
            if not due:
                return
        raise OffsetCommitFailed(
            f"group {self._settings.group_id}: no offset was committed to Kafka for "
            f"{', '.join(map(str, sorted(due)))}"
        )

    async def _commit_to_kafka(
        self, admin: Admin | None, due: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Commit once; return what is still to be committed."""
        if not due:
            return {}
        if admin is None:
            return due
        positions = {place: CommittedPosition(Offset(offset)) for place, offset in due.items()}
        try:
            outcomes = await admin.commit_offsets(self._settings.group_id, positions)
        except ClientError as error:
            _log.warning("group %s: offsets were not committed: %s", self._settings.group_id, error)
            return due
        done = {place: due[place] for place, error in outcomes.items() if error is Error.NONE}
        gone = {place for place, error in outcomes.items() if error is Error.UNKNOWN_TOPIC_OR_PARTITION}
        self._in_kafka |= done
        if self._settings.is_dual:
            await self._commit_to_zookeeper(done)
        return {place: offset for place, offset in due.items() if place not in done and place not in gone}

    async def _commit_to_zookeeper(self, offsets: Mapping[TopicPartition, int]) -> None:
        for place, offset in offsets.items():
            if self._in_zookeeper.get(place) != offset:
                await self._znodes.write_offset(place, offset)
                self._in_zookeeper[place] = offset
