"""A topic in which a coordinator keeps its state: how many partitions it has, and which of them this broker leads."""

from typing import TYPE_CHECKING

from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.replicas import Replicas


class CoordinatorTopic:
    """``__consumer_offsets`` or ``__transaction_state``.

    Args:
        name: Which of them.
        configured_count: How many partitions it gets when it is created.
        metadata: Knows how many it has.
        replicas: The broker's partitions.
    """

    def __init__(
        self, name: str, configured_count: int, metadata: "MetadataCache", replicas: "Replicas"
    ) -> None:
        self.name = name
        self._configured_count = configured_count
        self._metadata = metadata
        self._replicas = replicas
        self._count: int | None = None

    @property
    def partition_count(self) -> int:
        """How many partitions it has, as first seen: the partition of each key depends on this number."""
        if self._count is None:
            partitions = self._metadata.snapshot.topics.get(self.name)
            if not partitions:
                return self._configured_count
            self._count = len(partitions)
        return self._count

    def found(self, partition_count: int | None) -> None:
        """Note the topic's partition count in ZooKeeper at the broker's start; None if there is no topic."""
        if partition_count is not None:
            self._count = partition_count

    def deleted(self) -> None:
        """Forget how many partitions it had: created again, it can have another number."""
        self._count = None

    def leads(self, number: int) -> bool:
        """Whether this broker leads a partition of it at this moment."""
        partition = self._replicas.hosted.online.get(TopicPartition(self.name, number))
        return partition is not None and partition.leader_log is not None
