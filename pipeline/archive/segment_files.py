"""The segments of log directories."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storage.names import LOG, TRANSACTION_INDEX, parse_offset, parse_partition_directory, segment_name
from wire.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One segment of one partition.

    Attributes:
        path: Its .log file.
        base_offset: The first offset it may hold.
        is_active: Whether it is the partition's last one, which a running broker appends to.
        transaction_indexes: The .txnindex files of this and all later segments, with their base offsets: a transaction
            that began here may have been aborted there.
    """

    topic: str
    partition: int
    path: str
    base_offset: int
    is_active: bool
    transaction_indexes: tuple[tuple[int, str], ...]


def segment_files(
    directories: Iterable[str], *, topics: frozenset[str] = frozenset(), pattern: str | None = None
) -> list[SegmentFile]:
    """List the segments of log directories, by topic, partition and offset.

    Partitions that are being deleted or moved in are left out.

    Args:
        directories: Brokers' log directories.
        topics: Only these; none means all.
        pattern: Only topics whose whole name matches this regular expression.

    Raises:
        OSError: a directory cannot be read.
    """
    found: list[SegmentFile] = []
    for directory in directories:
        for name in sorted(os.listdir(directory)):
            parsed = parse_partition_directory(name)
            if parsed is None or parsed[1] or not (Path(directory) / name).is_dir():
                continue
            place = parsed[0]
            if topics and place.topic not in topics:
                continue
            if pattern is None or re.fullmatch(pattern, place.topic):
                found += _partition_segments(Path(directory) / name, place)
    return sorted(found, key=lambda segment: (segment.topic, segment.partition, segment.base_offset))


def _partition_segments(folder: Path, place: TopicPartition) -> list[SegmentFile]:
    names = set(os.listdir(folder))
    bases = sorted(base for name in names if name.endswith(LOG) and (base := parse_offset(name)) is not None)
    indexes = tuple(
        (int(base), str(folder / index))
        for base in bases
        if (index := segment_name(base, TRANSACTION_INDEX)) in names
    )
    return [
        SegmentFile(
            place.topic,
            place.partition,
            str(folder / segment_name(base, LOG)),
            int(base),
            base == bases[-1],
            tuple(entry for entry in indexes if entry[0] >= base),
        )
        for base in bases
    ]
