"""What one fetch brought of one partition, decoded in steps. No I/O.

When the bytes arrive, only the batches' headers are read, checksums compared and compressed records decompressed:
that gives the next position, and drops markers, aborted data and what lies before the position. The records
themselves are decoded on first access, all at once: with numpy where it is installed and there are enough of them,
else by a loop.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.batch_encoding import EncodedRecords
from ottla.client.record_columns import Columns, FieldColumns, ListColumns, from_offset
from wire.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    complete_size,
    peek_magic,
    read_header,
)
from wire.records.compression import DECOMPRESSED_SIZE_MAX, decompress
from wire.records.errors import CorruptRecordError
from wire.records.record import ControlType, Header, iter_records, read_control_type, read_varint
from wire.types import NO_LEADER_EPOCH, LeaderEpoch

if TYPE_CHECKING:
    from wire.records.columns import RecordFields

_HAS_NUMPY: Final = find_spec("numpy") is not None
COLUMNS_FROM: Final = 24
"""The fewest records for which numpy repays its fixed cost."""

NO_HEADERS: Final[Sequence[Header]] = ()


class AbortedTransaction(NamedTuple):
    """A producer's aborted transaction: its records from an offset on are not to be seen."""

    producer_id: int
    first_offset: int


class PartitionRecords:
    """Records of one partition, undecoded.

    Attributes:
        first_offset: The position that was asked for: no record before it is shown.
        next_offset: The position behind everything that came, gaps and markers included.
        last_epoch: The leader epoch of the last batch, -1 where unknown.
        size: Bytes held, decompressed.
        data: The records' bytes, all batches behind each other.
        spans: Of each batch to be shown: where its records begin and end in ``data``, and how many there are.
    """

    __slots__ = (
        "_columns",
        "_count",
        "_headers",
        "_legacy",
        "_packed_limit",
        "data",
        "first_offset",
        "last_epoch",
        "next_offset",
        "size",
        "spans",
    )

    def __init__(
        self,
        data: bytes | memoryview,
        spans: list[tuple[int, int, int]],
        headers: list[BatchHeader],
        legacy: ListColumns | None,
        first_offset: int,
        next_offset: int,
        last_epoch: LeaderEpoch,
    ) -> None:
        self.data = data
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.last_epoch = last_epoch
        self.size = len(data)
        self.spans = spans
        self._headers = headers
        self._legacy = legacy
        self._columns: Columns | None = None
        self._packed_limit: int | None = None
        # Compaction and a position inside of the first batch make the count known only by decoding.
        exact = not headers or headers[0].base_offset >= first_offset
        self._count = sum(span[2] for span in spans) if exact and legacy is None else None

    @property
    def may_have_records(self) -> bool:
        """Whether anything is left to show; False where only markers and aborted data came."""
        return bool(self.spans) or self._legacy is not None

    @property
    def count(self) -> int:
        """How many records there are."""
        if self._count is None:
            self._count = len(self.columns().offsets)
        return self._count

    def columns(self) -> Columns:
        """Decode everything, once.

        Raises:
            CorruptRecordError: The bytes are damaged.
        """
        if self._columns is None:
            if self._packed_limit is not None:
                self._unpack(self._packed_limit)
            if self._legacy is not None:
                self._columns = from_offset(self._legacy, self.first_offset)
            elif _HAS_NUMPY and sum(span[2] for span in self.spans) >= COLUMNS_FROM:
                self._columns = self._decode_at_once()
            else:
                self._columns = from_offset(self._decode_each(), self.first_offset)
        return self._columns

    def keep_packed(self, limit: int) -> None:
        """Leave compressed records packed until asked for; decompressed, they may have ``limit`` bytes at most."""
        self._packed_limit = limit

    def _unpack(self, limit: int) -> None:
        pieces: list[bytes | memoryview] = []
        filled = 0
        for (begin, end, _), header in zip(self.spans, self._headers, strict=True):
            body: bytes | memoryview = self.data[begin:end]
            if header.is_compressed:
                body = decompress(header.compression, body, limit=limit - filled)
            pieces.append(body)
            filled += len(body)
        self.data, self.spans = _join(pieces, self.spans)
        self._packed_limit = None

    def whole_batches(self) -> list[tuple[int, EncodedRecords]] | None:
        """Return the batches as they were written, with their first offsets, for writing them elsewhere.

        Returns:
            None where records would get other offsets or timestamps than a producer gives them: compaction has left
            gaps, the broker set the timestamps, or the position lies inside of a batch; or where they were decoded.
        """
        if self._legacy is not None or self._packed_limit is None:
            return None
        found = []
        for (begin, end, count), header in zip(self.spans, self._headers, strict=True):
            if (
                header.is_log_append_time
                or header.last_offset_delta + 1 != count
                or header.base_offset < self.first_offset
            ):
                return None
            body = bytes(self.data[begin:end])
            times = header.base_timestamp, header.max_timestamp
            found.append((int(header.base_offset), EncodedRecords(body, header.compression, count, *times)))
        return found

    def is_log_append_time(self, offset: int) -> bool:
        """Return whether a record's timestamp was set by the broker (LogAppendTime), not by the producer."""
        at = bisect_right(self._headers, offset, key=_base_offset) - 1
        return at >= 0 and self._headers[at].is_log_append_time

    def _decode_each(self) -> ListColumns:
        offsets: list[int] = []
        timestamps: list[int] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        headers: dict[int, Sequence[Header]] = {}
        data = self.data if isinstance(self.data, bytes) else bytes(self.data)
        for (begin, end, count), header in zip(self.spans, self._headers, strict=True):
            _decode_batch(data, begin, end, count, header, offsets, timestamps, keys, values, headers)
        return ListColumns(offsets, timestamps, keys, values, headers)

    def fields(self) -> "tuple[RecordFields, Any, Any, Any]":
        """Find the fields with numpy; return them, offsets, timestamps and ends, the position not applied.

        Raises:
            CorruptRecordError: The bytes are damaged.
        """
        import numpy as np

        if self._packed_limit is not None:
            self._unpack(self._packed_limit)
        from wire.records.columns import record_fields, record_starts

        starts, ends = record_starts(self.data, self.spans)
        fields = record_fields(self.data, starts, ends)
        counts = [span[2] for span in self.spans]
        bases = np.repeat(np.array([header.base_offset for header in self._headers], np.int64), counts)
        times = np.repeat(np.array([header.base_timestamp for header in self._headers], np.int64), counts)
        timestamps = times + fields.timestamp_delta
        if any(header.is_log_append_time for header in self._headers):
            appended = np.repeat([header.is_log_append_time for header in self._headers], counts)
            newest = np.repeat(np.array([header.max_timestamp for header in self._headers], np.int64), counts)
            timestamps = np.where(appended, newest, timestamps)
        return fields, bases + fields.offset_delta, timestamps, ends

    def _decode_at_once(self) -> FieldColumns:
        fields, offsets, timestamps, ends = self.fields()
        # Of the batch that the position lies in, what is before it is not shown.
        # Not by bisection: damaged offsets need not ascend, and the loop without numpy finds the first in order, too.
        shown = offsets >= self.first_offset
        skip = int(shown.argmax()) if shown.any() else len(offsets)
        headers: dict[int, Sequence[Header]] = {}
        with_headers = fields.header_count.nonzero()[0].tolist()
        data = bytes(self.data) if with_headers else b""
        for index in with_headers:
            begin = int(fields.header_start[index])
            found, at = _read_headers(data, begin, int(fields.header_count[index]))
            if at != int(ends[index]):
                raise CorruptRecordError("a record does not fill the bytes that it claims")
            if index >= skip:
                headers[index - skip] = found
        return FieldColumns(self.data, fields, offsets, timestamps, headers, skip)


def _base_offset(header: BatchHeader) -> int:
    return header.base_offset


def _decode_batch(
    data: bytes,
    begin: int,
    end: int,
    count: int,
    header: BatchHeader,
    offsets: list[int],
    timestamps: list[int],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: dict[int, Sequence[Header]],
) -> None:
    """Append a batch's records to the lists, a record at a time."""
    at = begin
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(count):
            length, at = read_varint(data, at)
            stop = at + length
            if length < 0 or stop > end:
                raise CorruptRecordError(f"a record claims {length} bytes where {end - at} are left")
            delta, at = read_varint(data, at + 1, 10)
            timestamps.append(base_timestamp + delta if append_time is None else append_time)
            delta, at = read_varint(data, at)
            offsets.append(base_offset + delta)
            for fields in (keys, values):
                size, at = read_varint(data, at)
                if size < 0:
                    fields.append(None)
                    continue
                if at + size > stop:
                    raise CorruptRecordError(f"a field of {size} bytes in a record with {stop - at} left")
                fields.append(data[at : at + size])
                at += size
            extra, at = read_varint(data, at)
            if extra:
                headers[len(values) - 1], at = _read_headers(data, at, extra)
            if at != stop:
                raise CorruptRecordError("a record does not fill the bytes that it claims")
            at = stop
    except IndexError:
        raise CorruptRecordError("a batch ends inside a record") from None
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the batch's {count} records")


def _read_headers(data: bytes, at: int, count: int) -> tuple[Sequence[Header], int]:
    if not 0 <= count <= (len(data) - at) // 2:
        raise CorruptRecordError(f"a record claims {count} headers")
    found: list[Header] = []
    try:
        for _ in range(count):
            size, at = read_varint(data, at)
            if size < 0:
                raise CorruptRecordError("a record has a header without a key")
            name = data[at : at + size].decode(errors="surrogateescape")
            at += size
            size, at = read_varint(data, at)
            found.append((name, None if size < 0 else data[at : at + size]))
            at += max(size, 0)
    except IndexError:
        raise CorruptRecordError("a batch ends inside a header") from None
    return found, at


def read_partition_records(
    buffer: memoryview,
    position: int,
    *,
    aborted: Iterable[AbortedTransaction] = (),
    check_crcs: bool = True,
    limit: int = DECOMPRESSED_SIZE_MAX,
    packed: bool = False,
) -> PartitionRecords | None:
    """Read what a Fetch returned for one partition.

    Args:
        buffer: The records field; a batch that is cut off at its end is left out.
        position: The offset that was asked for.
        aborted: The aborted transactions in it, for read_committed; see `AbortedTransaction`.
        check_crcs: Whether to compare checksums.
        limit: The most bytes that all of it may decompress to.
        packed: Leave compressed records as they are until they are asked for.

    Returns:
        The records; None where no whole batch came.

    Raises:
        CorruptRecordError: A checksum or length is wrong, or the data decompress to more than ``limit``.
    """
    size = complete_size(buffer)
    if not size:
        return None
    if peek_magic(buffer) < MAGIC:
        return _read_legacy(buffer[:size], position, limit)
    visible = _AbortedFilter(aborted)
    spans: list[tuple[int, int, int]] = []
    headers: list[BatchHeader] = []
    pieces: list[bytes | memoryview] = []
    decompressed = False
    next_offset, last_epoch = position, NO_LEADER_EPOCH
    at = filled = 0
    while at < size:
        if peek_magic(buffer, at) < MAGIC:
            break  # an older format behind a newer one: asked for again from there
        header = read_header(buffer, at)
        end = at + LOG_OVERHEAD + header.batch_length
        if check_crcs:
            check_crc(buffer, at, header)
        if header.next_offset > position and visible(buffer, at, header) and header.record_count > 0:
            body: bytes | memoryview = buffer[at + HEADER_SIZE : end]
            if header.is_compressed and not packed:
                body = decompress(header.compression, body, limit=limit - filled)
                decompressed = True
            spans.append((at + HEADER_SIZE, end, header.record_count))
            headers.append(header)
            pieces.append(body)
            filled += len(body)
        next_offset, last_epoch = header.next_offset, header.partition_leader_epoch
        at = end
    if next_offset <= position and not spans:
        return (
            None
            if next_offset < position
            else PartitionRecords(b"", [], [], None, position, position, last_epoch)
        )
    data: bytes | memoryview = buffer
    if decompressed:
        data, spans = _join(pieces, spans)
    records = PartitionRecords(data, spans, headers, None, position, next_offset, last_epoch)
    if packed:
        records.keep_packed(limit)
    return records


def _join(
    pieces: list[bytes | memoryview], spans: list[tuple[int, int, int]]
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Put decompressed records behind each other."""
    joined: list[tuple[int, int, int]] = []
    at = 0
    for piece, (_, _, count) in zip(pieces, spans, strict=True):
        joined.append((at, at + len(piece), count))
        at += len(piece)
    return b"".join(pieces), joined


class _AbortedFilter:
    """Says which batches may be seen, in the order of the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=_first_offset, reverse=True)
        self._open: set[int] = set()

    def __call__(self, buffer: memoryview, at: int, header: BatchHeader) -> bool:
        """Return whether a batch holds visible records; markers never do, and abort markers end transactions."""
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            self._open.add(self._coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._open:
                marker = next(iter_records(buffer, at, header), None)
                if marker is None or read_control_type(marker.key) is ControlType.ABORT:
                    self._open.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._open)


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


def _read_legacy(buffer: memoryview, position: int, limit: int) -> PartitionRecords | None:
    """Read messages of formats 0 and 1: decoded at once, since they are rare."""
    from wire.records.legacy import iter_legacy

    records = [record for record in iter_legacy(buffer, limit=limit) if record.offset >= position]
    if not records:
        return None
    columns = ListColumns(
        [record.offset for record in records],
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        {},
    )
    following = records[-1].offset + 1
    return PartitionRecords(bytes(buffer), [], [], columns, position, following, NO_LEADER_EPOCH)


def rows(columns: Columns) -> Iterable[Sequence[Header]]:
    """Return the headers of each record in turn."""
    if not columns.headers:
        return repeat(NO_HEADERS, len(columns.offsets))
    headers = columns.headers
    return [headers.get(index, NO_HEADERS) for index in range(len(columns.offsets))]
