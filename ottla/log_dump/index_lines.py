"""The lines of index files, and the errors found by comparing them with their .log.

    .index      relative offset [4] int32, position [4] int32; the last offset of the batch at that position
    .timeindex  timestamp [8] int64, relative offset [4] int32
    .txnindex   see `storage.transaction_index`

A preallocated index ends in zeroed entries; the first one ends the dump, as in Kafka.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.log_dump.batches import StoredBatch, read_batches
from ottla.log_dump.failure import DumpError
from ottla.log_dump.lines import Line, Value, remark
from ottla.log_dump.log_lines import base_offset_of
from storage.producer_snapshot import CorruptSnapshotError, decode_snapshot
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")

Pairs = dict[Path, list[tuple[int, int]]]


@dataclass(slots=True)
class Complaints:
    """The errors found, by file; printed after all files have been dumped.

    Attributes:
        index_mismatches: offset in the index, and in the log.
        time_mismatches: timestamp in the index, and in the log.
        out_of_order: timestamp, and the one before it.
        not_found: indexed offset, and the offset in the log in its place.
        gaps: pairs of successive offsets that are not consecutive.
    """

    index_mismatches: Pairs = field(default_factory=dict)
    time_mismatches: Pairs = field(default_factory=dict)
    out_of_order: Pairs = field(default_factory=dict)
    not_found: Pairs = field(default_factory=dict)
    gaps: Pairs = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Return the lines of the errors, in Kafka's words and order."""
        for path, pairs in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {one}, log offset: {other}" for one, other in reversed(pairs))
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {one}, log timestamp: {other}" for one, other in pairs)
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            for one, other in pairs:
                yield f"  Index timestamp: {one}, Previously indexed timestamp: {other}"
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {one}, found log offset: {other}" for one, other in pairs)
        for path, pairs in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {one} is followed by {other}" for one, other in reversed(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """How an index is dumped.

    Attributes:
        sanity_only: only what a broker checks at its start.
        verify_only: compare, but do not print the entries.
        max_message_size: how many bytes of the .log are searched at an entry's position.
    """

    sanity_only: bool = False
    verify_only: bool = False
    max_message_size: int = 5 * 1024 * 1024


def index_lines(path: Path, options: IndexOptions, complaints: Complaints) -> Iterator[Line]:
    """Return the lines of an .index.

    Raises:
        DumpError: it is not sane, or points outside of the .log.
        OSError: a file cannot be read.
    """
    base = base_offset_of(path)
    data = path.read_bytes()
    if len(data) < _OFFSET_ENTRY.size:
        yield remark(f"{path} is empty.")
        return
    entries = [(base + relative, position) for relative, position in _OFFSET_ENTRY.iter_unpack(_whole(data))]
    if options.sanity_only:
        _check_sanity(path, len(data), _OFFSET_ENTRY.size, base, entries[-1][0])
        yield remark(f"{path} passed sanity check.")
        return
    log = path.with_suffix(".log")
    for slot, (offset, position) in enumerate(entries):
        if offset == base and slot:
            return
        batch = next(read_batches(log, position, options.max_message_size), None)
        if batch is None:
            raise DumpError(f"{path}: no whole batch is at {position}, where offset {offset} should be")
        if batch.last_offset != offset:
            complaints.index_mismatches.setdefault(path.absolute(), []).append((offset, batch.last_offset))
        if not options.verify_only:
            yield Line("index", {"offset": offset, "position": position})


def time_index_lines(path: Path, options: IndexOptions, complaints: Complaints) -> Iterator[Line]:
    """Return the lines of a .timeindex.

    Raises:
        DumpError: it is not sane, or the .log cannot be decoded.
        OSError: a file cannot be read.
    """
    base = base_offset_of(path)
    data = path.read_bytes()
    entries = [
        (timestamp, base + relative)
        for timestamp, relative in _TIME_ENTRY.iter_unpack(data[: len(data) - len(data) % _TIME_ENTRY.size])
    ]
    if options.sanity_only:
        if entries and entries[-1][0] < entries[0][0]:
            raise DumpError(
                f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last "
                f"timestamp is {entries[-1][0]} which is less than the first timestamp {entries[0][0]}"
            )
        _check_sanity(path, len(data), _TIME_ENTRY.size, base, entries[-1][1] if entries else base)
        yield remark(f"{path} passed sanity check.")
        return
    positions = list(_OFFSET_ENTRY.iter_unpack(_whole(path.with_suffix(".index").read_bytes())))
    previous = -1
    for slot, (timestamp, offset) in enumerate(entries):
        if offset == base and slot:
            return
        start = max((at for relative, at in positions if base + relative <= offset), default=0)
        found = _find(path.with_suffix(".log"), start, offset)
        if found is None or found.last_offset != offset:
            there = -1 if found is None else found.last_offset
            complaints.not_found.setdefault(path, []).append((offset, there))
        else:
            greatest = _greatest_timestamp(path, found)
            if greatest != timestamp:
                complaints.time_mismatches.setdefault(path.absolute(), []).append((timestamp, greatest))
            if previous >= timestamp:
                complaints.out_of_order.setdefault(path.absolute(), []).append((timestamp, previous))
        if not options.verify_only:
            yield Line("timeindex", {"timestamp": timestamp, "offset": offset})
        previous = timestamp


def aborted_lines(path: Path) -> Iterator[Line]:
    """Return the lines of a .txnindex.

    Raises:
        DumpError: it cannot be decoded.
        OSError: the file cannot be read.
    """
    data = path.read_bytes()
    if len(data) % _ABORTED_ENTRY.size:
        raise DumpError(f"{path} has {len(data)} bytes, no multiple of {_ABORTED_ENTRY.size}")
    for version, producer, first, last, stable in _ABORTED_ENTRY.iter_unpack(data):
        if version != 0:
            raise DumpError(f"{path} has an entry of version {version}, expected 0")
        yield Line(
            "aborted",
            {
                "version": version,
                "producerId": producer,
                "firstOffset": first,
                "lastOffset": last,
                "lastStableOffset": stable,
            },
        )


def snapshot_lines(path: Path) -> Iterator[Line]:
    """Return the lines of a producers' .snapshot.

    Raises:
        DumpError: it cannot be decoded.
        OSError: the file cannot be read.
    """
    try:
        entries = decode_snapshot(path.read_bytes())
    except CorruptSnapshotError as error:
        raise DumpError(f"Snapshot {path} is corrupt: {error}") from error
    for entry in entries:
        fields: dict[str, Value] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.transaction_first_offset,
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[0]
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield Line("producer", fields)


def _check_sanity(path: Path, size: int, entry_size: int, base: int, last_offset: int) -> None:
    if last_offset < base:
        raise DumpError(
            f"Corrupt index found, index file ({path.absolute()}) has non-zero size but the last offset is "
            f"{last_offset} which is less than the base offset {base}"
        )
    if size % entry_size:
        raise DumpError(
            f"Index file {path.absolute()} is corrupt, found {size} bytes which is neither positive nor a multiple "
            f"of {entry_size}"
        )


def _whole(data: bytes) -> bytes:
    return data[: len(data) - len(data) % _OFFSET_ENTRY.size]


def _find(log: Path, start: int, offset: int) -> StoredBatch | None:
    return next((batch for batch in read_batches(log, start) if batch.last_offset >= offset), None)


def _greatest_timestamp(path: Path, batch: StoredBatch) -> int:
    try:
        return max((record.timestamp for record, _ in batch.records()), default=-1)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        raise DumpError(f"{path}: the batch at {batch.position} of the log does not read: {error}") from error
