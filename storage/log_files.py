"""What one log keeps in its directory: segments, leader epochs and producers, under one name."""

from uuid import uuid4

from storage import names
from storage.errors import StorageError
from storage.leader_epochs import LeaderEpochCache
from storage.log_config import LogConfig
from storage.log_directory import LogDirectory
from storage.producer_state import ProducerState
from storage.segment import Segment
from storage.segments import Segments
from wire.types import TopicPartition


class LogFiles:
    """The files of one log, and what is kept in memory of them.

    Attributes:
        topic_partition: the partition that the log is of.
        log_directory: the log directory it is in.
        segments: the records, and the log's end.
        leader_epochs: where each leader epoch began.
        producer_state: idempotent and transactional producers.
    """

    __slots__ = (
        "_set_aside",
        "leader_epochs",
        "log_directory",
        "producer_state",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_directory: LogDirectory,
        directory: str,
        config: LogConfig,
        producer_expiration_ms: int,
    ) -> None:
        disk = log_directory.disk
        self.topic_partition = topic_partition
        self.log_directory = log_directory
        self.segments = Segments(log_directory, directory, config)
        self.leader_epochs = LeaderEpochCache(disk, f"{directory}/{names.LEADER_EPOCHS}")
        self.producer_state = ProducerState(disk, directory, expiration_ms=producer_expiration_ms)
        self._set_aside = False

    def rename(self, name: str) -> None:
        """Rename the log's directory within its log directory.

        Raises:
            OSError: the disk failed.
        """
        path = f"{self.log_directory.path}/{name}"
        self.log_directory.disk.rename(self.segments.directory, path)
        self.segments.moved_to(path)
        self.leader_epochs.moved_to(f"{path}/{names.LEADER_EPOCHS}")
        self.producer_state.moved_to(path)

    def set_aside_name(self, mark: str) -> str:
        """Return the name for a log that leaves use; from now on its missing files are not blamed on the disk."""
        self._set_aside = True
        return names.marked_directory(self.topic_partition, uuid4().hex, mark)

    def forget_snapshots(self, segments: list[Segment]) -> None:
        """Mark the producer snapshots of removed segments for removal, too.

        Raises:
            OSError: the disk failed.
        """
        disk = self.log_directory.disk
        paths = []
        for segment in segments:
            path = self.producer_state.forget_snapshot(segment.base_offset)
            if path is not None and disk.exists(path):
                disk.rename(path, path + names.DELETED)
                paths.append(path + names.DELETED)
        self.log_directory.remove_later(paths, self.segments.config.file_delete_delay_ms)

    def failed(self, error: OSError, doing: str) -> StorageError:
        """Take the log directory offline, and return the error to raise."""
        if self._set_aside and isinstance(error, FileNotFoundError):
            # A missing file of a deleted or moved replica says nothing about the disk.
            return StorageError(f"{doing} {self.topic_partition}: the log is not in use any more")
        return self.log_directory.fail(error, f"{doing} {self.topic_partition}")
