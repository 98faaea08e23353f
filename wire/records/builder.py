"""Writing v2 batches: by clients, by coordinators, by compaction and by recompression."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from wire.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    patch_crc,
)
from wire.records.compression import Compression, compress
from wire.records.record import Header
from wire.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    WallMs,
)

_ONE_BYTE: Final = {value: bytes([(value << 1) ^ (value >> 63)]) for value in range(-64, 64)}


class RecordLike(Protocol):
    """Anything with a record's four parts: what ``build_batch`` accepts."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...


def encode_varint(value: int) -> bytes:
    """Write a zigzag varint (``record`` has the format). For values within 64 signed bits."""
    small = _ONE_BYTE.get(value)
    if small is not None:
        return small
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class BatchBuilder:
    """Collects records and writes them as one batch.

    Offsets count up from ``base_offset``, or are given to ``append``, rising: that is how compaction leaves gaps.
    ``size`` is the batch's size so far, uncompressed.

    Args:
        base_offset: the offset of the batch, and of its first record if ``append`` is given no other.
        compression: the codec of the records.
        level: the codec's level, None for Kafka's default.
        log_append_time: in milliseconds; becomes each record's timestamp, as on a leader. None keeps theirs.
        producer_id: the idempotent producer, -1 for none.
        producer_epoch: its epoch, -1 for none.
        base_sequence: its sequence number of the first record, -1 for none.
        transactional: whether the batch belongs to a transaction.
        control: whether it is a marker for brokers.
        leader_epoch: the epoch of the leader that writes it, -1 where that leader will patch it in.
        delete_horizon: in milliseconds: from when the batch's tombstones may be removed; None where that is not set.
    """

    __slots__ = (
        "_attributes",
        "_base_timestamp",
        "_body",
        "_compression",
        "_last_offset",
        "_level",
        "_log_append_time",
        "_max_timestamp",
        "base_offset",
        "base_sequence",
        "leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        *,
        base_offset: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
        compression: Compression = Compression.NONE,
        level: int | None = None,
        log_append_time: WallMs | None = None,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        delete_horizon: WallMs | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.leader_epoch = leader_epoch
        self.record_count = 0
        self._compression = compression
        self._level = level
        self._log_append_time = log_append_time
        self._attributes = (
            compression
            | (TIMESTAMP_TYPE_BIT if log_append_time is not None else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon is not None else 0)
        )
        self._base_timestamp: int | None = delete_horizon
        self._max_timestamp: int = NO_TIMESTAMP
        self._last_offset: int = base_offset - 1
        self._body = bytearray()

    @property
    def size(self) -> int:
        """Bytes of the batch as it stands, before compression."""
        return HEADER_SIZE + len(self._body)

    @property
    def next_offset(self) -> Offset:
        """The offset that ``append`` assigns next."""
        return Offset(self._last_offset + 1)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Add one record.

        Args:
            timestamp: milliseconds on the wall clock, -1 for none; the log-append time overrides it.
            key: the key, or None.
            value: the value, or None: a tombstone.
            headers: names and values, in order.
            offset: where the record stands, None for the next one.

        Raises:
            ValueError: the offset does not rise, or is further from the base than 31 bits can express.
        """
        if offset is None:
            offset = self._last_offset + 1
        elif offset <= self._last_offset:
            raise ValueError(f"offset {offset} follows {self._last_offset}")
        delta = offset - self.base_offset
        if delta > 0x7FFFFFFF:
            raise ValueError(f"offset {offset} is too far from the batch's base {self.base_offset}")
        if self._log_append_time is not None:
            timestamp = self._log_append_time
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        parts = [b"\0", encode_varint(timestamp - self._base_timestamp), encode_varint(delta)]
        _add_nullable(parts, key)
        _add_nullable(parts, value)
        parts.append(encode_varint(len(headers)))
        for name, content in headers:
            _add_nullable(parts, name.encode(errors="surrogateescape"))
            _add_nullable(parts, content)
        record = b"".join(parts)
        body = self._body
        body += encode_varint(len(record))
        body += record
        self._last_offset = offset
        self.record_count += 1

    def build(self, *, last_offset: Offset | None = None, max_timestamp: WallMs | None = None) -> bytearray:
        """Write the batch. More records can be appended afterwards, and the batch built again.

        Args:
            last_offset: the last offset to claim, where compaction has dropped the record that had it.
            max_timestamp: the greatest timestamp to claim, None for that of the records.

        Returns:
            The batch, writable so that it can be patched in place.
        """
        records = (
            compress(self._compression, self._body, self._level)
            if self._compression and self.record_count
            else self._body
        )
        last = self._last_offset if last_offset is None else last_offset
        maximum = self._max_timestamp if max_timestamp is None else max_timestamp
        if self._log_append_time is not None and max_timestamp is None:
            maximum = self._log_append_time
        batch = bytearray(HEADER_SIZE + len(records))
        HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(records),
            self.leader_epoch,
            MAGIC,
            0,
            self._attributes,
            max(0, last - self.base_offset),
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            maximum,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )
        batch[HEADER_SIZE:] = records
        patch_crc(batch, 0)
        return batch


def _add_nullable(parts: list[bytes], field: bytes | None) -> None:
    if field is None:
        parts.append(b"\x01")
    else:
        parts.append(encode_varint(len(field)))
        parts.append(field)


def build_batch(
    records: Iterable[RecordLike],
    *,
    base_offset: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: WallMs | None = None,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """Write records as one batch, with offsets that count up from ``base_offset``; arguments as ``BatchBuilder``."""
    builder = BatchBuilder(
        base_offset=base_offset,
        compression=compression,
        level=level,
        log_append_time=log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


def rebuild_batch(
    header: BatchHeader,
    records: Iterable[tuple[int, RecordLike]],
    *,
    compression: Compression | None = None,
    level: int | None = None,
    delete_horizon: WallMs | None = None,
) -> bytearray:
    """Write a batch again with some of its records, or with another codec.

    Kept from the header: first and last offset, epochs, producer and sequences, which brokers need after the
    records are gone; timestamp type, transactional and control bits. A batch left without records is a bare
    header that keeps its greatest timestamp.

    Args:
        header: the batch as it was.
        records: those that stay, each with its offset, rising.
        compression: the codec, None for the batch's own.
        level: the codec's level.
        delete_horizon: in milliseconds: from when tombstones may be removed; None keeps the batch's.
    """
    if delete_horizon is None and header.has_delete_horizon:
        delete_horizon = header.delete_horizon
    builder = BatchBuilder(
        base_offset=header.base_offset,
        compression=header.compression if compression is None else compression,
        level=level,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        leader_epoch=header.partition_leader_epoch,
        delete_horizon=delete_horizon,
    )
    for offset, record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, offset)
    return builder.build(
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp if builder.record_count == 0 else None,
    )


def recompress_batch(
    header: BatchHeader, records: bytes, compression: Compression, level: int | None, max_timestamp: WallMs
) -> bytearray:
    """Write a batch again with the same records in another codec, without decoding any of them.

    Args:
        header: The batch as it was.
        records: Its records, decompressed.
        compression: The codec.
        level: The codec's level, None for Kafka's default.
        max_timestamp: The greatest timestamp to claim.
    """
    body = compress(compression, records, level) if compression else records
    batch = bytearray(HEADER_SIZE + len(body))
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    HEADER.pack_into(
        batch,
        0,
        *header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body),
            attributes=attributes,
            max_timestamp=max_timestamp,
        ),
    )
    batch[HEADER_SIZE:] = body
    patch_crc(batch, 0)
    return batch
