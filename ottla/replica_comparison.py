"""Comparing records of the replicas of one partition, below the high watermark.

Replicas hold the same bytes, except in compacted topics: each broker cleans its replica at its own time. There, records
that all replicas still have must be equal; those that only some have are counted.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.client.admin.replicas import ReplicaRead
from wire.records.batch import BatchHeader, iter_headers
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.record import iter_records
from wire.types import BrokerId, Offset


class Comparison(NamedTuple):
    """What was found.

    Attributes:
        next_offset: up to where the replicas were compared.
        differences: the differences, a line each.
        parted: whether the replicas have parted ways, so that nothing beyond `next_offset` can be compared.
        cleaned: how many records only some of the replicas have, in a compacted topic.
    """

    next_offset: Offset
    differences: list[str]
    parted: bool = False
    cleaned: int = 0


class _Batch(NamedTuple):
    header: BatchHeader
    data: memoryview


def compare_bytes(reads: Mapping[BrokerId, ReplicaRead], offset: Offset) -> Comparison:
    """Compare the batches that all replicas have, one by one.

    Args:
        reads: of each replica; none has an error.
        offset: where they were read from.
    """
    differences: list[str] = []
    following = offset
    try:
        for batches in zip(*(_batches(read, offset) for read in reads.values()), strict=False):
            first, *others = zip(reads, batches, strict=True)
            for broker_id, batch in others:
                if _place(batch.header) != _place(first[1].header):
                    differences.append(
                        f"replica {first[0]}'s offset {first[1].header.last_offset} doesn't match "
                        f"replica {broker_id}'s offset {batch.header.last_offset}"
                    )
                    return Comparison(following, differences, parted=True)
                if batch.header.crc != first[1].header.crc:
                    differences.append(
                        f"has unmatched checksum at offset {batch.header.last_offset}; "
                        f"replica {first[0]}'s checksum {first[1].header.crc}; "
                        f"replica {broker_id}'s checksum {batch.header.crc}"
                    )
                elif batch.data != first[1].data:
                    differences.append(
                        f"has unmatched bytes at offset {batch.header.last_offset} "
                        f"in replicas {first[0]} and {broker_id}"
                    )
            following = first[1].header.next_offset
    except CorruptRecordError as error:
        differences.append(f"has a batch that does not read after offset {following}: {error}")
        return Comparison(following, differences, parted=True)
    return Comparison(following, differences)


def compare_records(reads: Mapping[BrokerId, ReplicaRead], offset: Offset) -> Comparison:
    """Compare the records of a compacted topic, up to the offset that all replicas have returned.

    Args:
        reads: of each replica; none has an error.
        offset: where they were read from.
    """
    found: dict[BrokerId, dict[int, object]] = {}
    ends: list[Offset] = []
    for broker_id, read in reads.items():
        records: dict[int, object] = {}
        end = offset
        try:
            for batch in _batches(read, offset):
                for record in iter_records(bytes(batch.data), 0, batch.header):
                    records[record.offset] = (
                        record.timestamp,
                        record.key,
                        record.value,
                        tuple(record.headers),
                    )
                end = batch.header.next_offset
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            return Comparison(
                offset, [f"has a batch that does not read on replica {broker_id}: {error}"], True
            )
        found[broker_id] = records
        ends.append(end)
    following = min(ends)
    first, *others = found
    differences: list[str] = []
    cleaned = 0
    for number in sorted(
        {each for records in found.values() for each in records if offset <= each < following}
    ):
        if any(number not in records for records in found.values()):
            cleaned += 1
            continue
        differences.extend(
            f"has unmatched records at offset {number} in replicas {first} and {broker_id}"
            for broker_id in others
            if found[broker_id][number] != found[first][number]
        )
    return Comparison(following, differences, cleaned=cleaned)


def _batches(read: ReplicaRead, offset: Offset) -> Iterator[_Batch]:
    data = memoryview(read.records)
    for position, header in iter_headers(data):
        if header.last_offset >= read.high_watermark:
            return
        if header.last_offset >= offset:
            yield _Batch(header, data[position : position + header.size])


def _place(header: BatchHeader) -> tuple[int, int]:
    return header.base_offset, header.last_offset
