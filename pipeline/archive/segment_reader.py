"""Converting one segment to Arrow batches: our own readers do batch headers and codecs, records become columns."""

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pipeline.archive.record_columns import PADDING, RecordColumns, decode_columns
from pipeline.archive.segment_files import SegmentFile
from storage.disk import RealDisk
from storage.transaction_index import AbortedTransaction, TransactionIndex
from wire.records.batch import LOG_OVERHEAD, MAGIC, BatchHeader, check_crc, peek_magic, read_header
from wire.records.columns import record_starts
from wire.records.errors import CorruptRecordError
from wire.records.legacy import message_records, read_message
from wire.records.record import Record, records_bytes
from wire.types import Offset

ROWS_PER_BATCH: Final = 32_768
BYTES_PER_BATCH: Final = 32 * 1024 * 1024

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
    ]
)
"""Columns are matched by position on their way into Spark: DDL below has the same order."""

DDL: Final = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestamp_type INT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, leader_epoch INT, producer_id BIGINT, producer_epoch INT, "
    "sequence INT, transactional BOOLEAN, control BOOLEAN"
)


def read_segment(
    segment: SegmentFile, *, drop_aborted: bool = False, with_control: bool = False
) -> Iterator["pa.RecordBatch"]:
    """Return the records of a segment.

    Args:
        segment: The segment. What a broker appends during the read is not seen.
        drop_aborted: Leave out the records of aborted transactions.
        with_control: Return the markers of transactions too.

    Raises:
        CorruptRecordError: a batch is damaged; the text names file and position.
        OSError: the disk failed.
    """
    aborted = _aborted_transactions(segment) if drop_aborted else []
    size = os.path.getsize(segment.path)
    if size == 0:
        return
    with open(segment.path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped:
        buffer = memoryview(mapped)
        try:
            yield from _read_buffer(buffer, segment, aborted, with_control)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{segment.path}: {error}") from None
        finally:
            buffer.release()


def _read_buffer(
    buffer: memoryview, segment: SegmentFile, aborted: Sequence[AbortedTransaction], with_control: bool
) -> Iterator["pa.RecordBatch"]:
    pending = _Pending(segment)
    position = 0
    end = len(buffer)
    while position + LOG_OVERHEAD + 5 <= end:
        if peek_magic(buffer, position) < MAGIC:
            message = read_message(buffer, position)
            yield from pending.flush()
            yield _legacy_batch(segment, message_records(message), message.is_log_append_time)
            position += LOG_OVERHEAD + message.size
            continue
        header = read_header(buffer, position)
        following = position + header.size
        if following > end:
            break  # a tail that was never finished
        if (
            header.record_count > 0
            and (with_control or not header.is_control)
            and not _is_aborted(header, aborted)
        ):
            check_crc(buffer, position, header)
            pending.add(header, records_bytes(buffer, position, header))
            if pending.is_full:
                yield from pending.flush()
        position = following
    yield from pending.flush()


class _Pending:
    """Kafka batches that wait to become an Arrow batch."""

    def __init__(self, segment: SegmentFile) -> None:
        self._segment = segment
        self._headers: list[BatchHeader] = []
        self._pieces: list[bytes] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._rows >= ROWS_PER_BATCH or self._bytes >= BYTES_PER_BATCH

    def add(self, header: BatchHeader, records: bytes) -> None:
        self._headers.append(header)
        self._pieces.append(records)
        self._rows += header.record_count
        self._bytes += len(records)

    def flush(self) -> Iterator["pa.RecordBatch"]:
        if not self._headers:
            return
        spans = []
        begin = 0
        for header, piece in zip(self._headers, self._pieces, strict=True):
            spans.append((begin, begin + len(piece), header.record_count))
            begin += len(piece)
        data = b"".join([*self._pieces, PADDING])
        columns = decode_columns(data, *record_starts(data, spans))
        headers, rows = self._headers, self._rows
        self._headers, self._pieces, self._rows, self._bytes = [], [], 0, 0
        yield _arrow_batch(self._segment, headers, columns, rows)


def _arrow_batch(
    segment: SegmentFile, headers: Sequence[BatchHeader], columns: RecordColumns, rows: int
) -> "pa.RecordBatch":
    table = np.array(headers, dtype=np.int64)
    counts = table[:, BatchHeader._fields.index("record_count")]

    def spread(name: str) -> Any:
        return np.repeat(table[:, BatchHeader._fields.index(name)], counts)

    attributes = spread("attributes")
    appended = (attributes & 0x08) != 0
    timestamp = spread("base_timestamp") + columns.timestamp_delta
    timestamp = np.where(appended, spread("max_timestamp"), timestamp)
    base_sequence = spread("base_sequence")
    sequence = (base_sequence + columns.offset_delta) & 0x7FFFFFFF
    no_producer = spread("producer_id") < 0
    epoch = spread("partition_leader_epoch")
    values = [
        pa.repeat(pa.scalar(segment.topic, pa.string()), rows),
        pa.repeat(pa.scalar(segment.partition, pa.int32()), rows),
        pa.array(spread("base_offset") + columns.offset_delta, pa.int64()),
        _timestamps(timestamp),
        pa.array(appended.astype(np.int32)),
        columns.key,
        columns.value,
        columns.headers,
        _integers(epoch, pa.int32(), epoch < 0),
        _integers(spread("producer_id"), pa.int64(), no_producer),
        _integers(spread("producer_epoch"), pa.int32(), no_producer),
        _integers(sequence, pa.int32(), base_sequence < 0),
        pa.array((attributes & 0x10) != 0),
        pa.array((attributes & 0x20) != 0),
    ]
    return pa.RecordBatch.from_arrays(values, schema=SCHEMA)


def _integers(values: Any, kind: Any, is_null: Any) -> Any:
    return pa.array(values, mask=is_null).cast(kind)


def _timestamps(milliseconds: Any) -> Any:
    # Records without a timestamp have -1.
    kind = pa.timestamp("us", "UTC")
    return pa.array(milliseconds * 1000, mask=milliseconds < 0).cast(pa.timestamp("us")).cast(kind)


def _legacy_batch(segment: SegmentFile, records: Any, is_append_time: bool) -> "pa.RecordBatch":
    """Return the records of a message of the formats before batches, which have no producers, epochs or headers."""
    rows: list[Record] = list(records)
    count = len(rows)
    stamps = np.array([record.timestamp for record in rows], np.int64)
    values = [
        pa.repeat(pa.scalar(segment.topic, pa.string()), count),
        pa.repeat(pa.scalar(segment.partition, pa.int32()), count),
        pa.array([record.offset for record in rows], pa.int64()),
        _timestamps(stamps),
        pa.repeat(pa.scalar(int(is_append_time), pa.int32()), count),
        pa.array([record.key for record in rows], pa.binary()),
        pa.array([record.value for record in rows], pa.binary()),
        pa.array([[]] * count, SCHEMA.field("headers").type),
        *(pa.nulls(count, SCHEMA.field(i).type) for i in range(8, 12)),
        *(pa.repeat(pa.scalar(False), count) for _ in range(2)),
    ]
    return pa.RecordBatch.from_arrays(values, schema=SCHEMA)


def _aborted_transactions(segment: SegmentFile) -> list[AbortedTransaction]:
    disk = RealDisk()
    found: list[AbortedTransaction] = []
    for base, path in segment.transaction_indexes:
        index = TransactionIndex(disk, path, Offset(base))
        try:
            found += index.all()
        finally:
            index.entries.close()
    return found


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
        for one in aborted
    )
