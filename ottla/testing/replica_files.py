"""Reading a replica's records out of its files, without a broker, for the history checker."""

from collections.abc import Iterator
from pathlib import Path

from wire.records.batch import iter_headers
from wire.records.record import Record, iter_records
from wire.types import TopicPartition


def replica_directory(log_directory: Path, partition: TopicPartition) -> Path:
    """Return where a log directory keeps a partition."""
    return log_directory / str(partition)


def replica_records(log_directory: Path, partition: TopicPartition) -> Iterator[Record]:
    """Return all data records of a replica, in the order of its files; control batches are left out."""
    for segment in sorted(replica_directory(log_directory, partition).glob("*.log")):
        data = memoryview(segment.read_bytes())
        for position, header in iter_headers(data):
            if not header.is_control:
                yield from iter_records(data, position, header)
