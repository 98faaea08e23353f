"""The partitions that this broker hosts, and its errors for those that it does not."""

from collections.abc import Iterator

from cluster.replication.metadata_cache import MetadataCache
from cluster.replication.partition.partition import Partition
from wire.errors import ApiError, Error
from wire.types import TopicPartition


class HostedPartitions:
    """Partitions by name.

    Args:
        metadata: Distinguishes a partition that is elsewhere from one that does not exist.

    Attributes:
        online: Those whose logs can be used.
        offline: Those whose log directory has failed.
    """

    __slots__ = ("_metadata", "offline", "online")

    def __init__(self, metadata: MetadataCache) -> None:
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}
        self._metadata = metadata

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over the present online partitions."""
        return iter(tuple(self.online.values()))

    def __len__(self) -> int:
        return len(self.online)

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """Return a partition, or None if it is not hosted or its disk has failed."""
        return self.online.get(topic_partition)

    def find(self, topic_partition: TopicPartition) -> Partition:
        """Return a partition.

        Raises:
            ApiError: its disk has failed, it is hosted elsewhere, or it does not exist.
        """
        partition = self.online.get(topic_partition)
        if partition is None:
            raise ApiError(self.absence(topic_partition))
        return partition

    def absence(self, topic_partition: TopicPartition) -> Error:
        """Return the error that says why a partition is not here."""
        if topic_partition in self.offline:
            return Error.KAFKA_STORAGE_ERROR
        if self._metadata.contains(topic_partition):
            # It was here before a reassignment, or will be: the client must look for its leader.
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.UNKNOWN_TOPIC_OR_PARTITION

    def take_offline(self, partition: Partition) -> None:
        """Take a partition offline whose disk has failed."""
        topic_partition = partition.topic_partition
        self.online.pop(topic_partition, None)
        self.offline[topic_partition] = None
        partition.stop(Error.KAFKA_STORAGE_ERROR)
