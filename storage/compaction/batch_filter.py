"""What compaction leaves of one batch: all of it as it is, a part of it, its empty header, or nothing.

- A record stays if no later one has its key, as far as the map knows; one without a key is removed.
- A tombstone stays until its batch's delete horizon, which the first pass that meets it sets `delete.retention.ms`
ahead.
- A batch that is the last of an active producer leaves at least its header, so that its sequence numbers are not lost.

Records are cut out as they stand, headers and all: base offset and base timestamp of the batch do not change, so
neither do the records' deltas. Only where a horizon is set must they be rewritten, since it takes the base timestamp's
place.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from storage.compaction.offset_map import OffsetMap
from storage.compaction.record_walk import Chosen, choose_records, max_timestamp_delta
from wire.records.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    patch_crc,
)
from wire.records.builder import BatchBuilder
from wire.records.compression import compress
from wire.records.legacy import build_message_set, iter_legacy
from wire.records.record import iter_records, records_bytes
from wire.types import NO_TIMESTAMP, ProducerId, WallMs

_KEPT_ATTRIBUTES: Final = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class LastRecord(NamedTuple):
    """A producer's last data offset (-1 where it is not known) and its epoch."""

    offset: int
    epoch: int


class Verdict(NamedTuple):
    """What is left of a batch.

    Attributes:
        data: its new bytes; None where it stays as it is, empty where it goes.
        kept: how many records are left.
    """

    data: bytes | bytearray | None
    kept: int


class BatchFilter:
    """Decides on the batches of one log."""

    __slots__ = ("_delete_retention_ms", "_last_records", "_map", "_now", "legacy_deletes_stay")

    def __init__(
        self,
        offsets: OffsetMap,
        last_records: Mapping[ProducerId, LastRecord],
        now: WallMs,
        delete_retention_ms: int,
    ) -> None:
        """Take the map of latest offsets, the producers' last records, wall time, and how long tombstones stay."""
        self._map = offsets
        self._last_records = last_records
        self._now = now
        self._delete_retention_ms = delete_retention_ms
        self.legacy_deletes_stay = True

    def data_batch(self, data: bytes, position: int, header: BatchHeader, *, aborted: bool) -> Verdict:
        """Decide on a batch of records.

        Args:
            data: holds the batch.
            position: where it begins.
            header: its header.
            aborted: whether its transaction was aborted.

        Raises:
            CorruptRecordError: its records do not read.
        """
        if header.magic != MAGIC:
            return self._messages(data, position, header)
        if aborted or not header.record_count:
            return self._nothing_left(header)
        records = records_bytes(data, position, header)
        chosen = choose_records(
            records,
            header.record_count,
            header.base_offset,
            self._map,
            tombstones_stay=not header.has_delete_horizon or self._now < header.delete_horizon,
        )
        if not chosen.kept:
            return self._nothing_left(header)
        if chosen.has_tombstone and not header.has_delete_horizon:
            kept = None
            if chosen.kept < header.record_count:
                kept = b"".join([records[start:end] for start, end in chosen.ranges])
            return Verdict(self._with_horizon(data, position, header, kept, chosen.kept), chosen.kept)
        if chosen.kept == header.record_count:
            return Verdict(None, chosen.kept)
        return Verdict(_cut_out(header, records, chosen), chosen.kept)

    def control_batch(self, data: bytes, position: int, header: BatchHeader, *, may_go: bool) -> Verdict:
        """Decide on a marker.

        Args:
            data: holds the batch.
            position: where it begins.
            header: its header.
            may_go: whether no record of its transaction is left.
        """
        if not header.record_count:
            return self._nothing_left(header)
        if not may_go:
            return Verdict(None, header.record_count)
        if not header.has_delete_horizon:
            return Verdict(
                self._with_horizon(data, position, header, None, header.record_count), header.record_count
            )
        if header.delete_horizon > self._now:
            return Verdict(None, header.record_count)
        return self._nothing_left(header)

    def _nothing_left(self, header: BatchHeader) -> Verdict:
        last = self._last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return Verdict(b"", 0)
        is_last = (
            header.last_offset == last.offset
            if last.offset >= 0
            else header.is_control and header.producer_epoch == last.epoch
        )
        if not is_last:
            return Verdict(b"", 0)
        return Verdict(None if not header.record_count else empty_batch(header), 0)

    def _with_horizon(
        self, data: bytes, position: int, header: BatchHeader, kept: bytes | None, count: int
    ) -> bytearray:
        """Rewrite a batch with a delete horizon, and with its records in `kept`, or all where that is None."""
        if kept is not None:
            plain = header._replace(
                batch_length=HEADER_SIZE - LOG_OVERHEAD + len(kept),
                attributes=header.attributes & _KEPT_ATTRIBUTES,
                record_count=count,
            )
            data, position = HEADER.pack(*plain) + kept, 0
            records = iter_records(data, position, plain)
        else:
            records = iter_records(data, position, header)
        builder = BatchBuilder(
            base_offset=header.base_offset,
            compression=header.compression,
            log_append_time=header.max_timestamp if header.is_log_append_time else None,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            leader_epoch=header.partition_leader_epoch,
            delete_horizon=WallMs(self._now + self._delete_retention_ms),
        )
        for record in records:
            builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
        return builder.build(last_offset=header.last_offset)

    def _messages(self, data: bytes, position: int, header: BatchHeader) -> Verdict:
        message = data[position : position + header.size]
        records = list(iter_legacy(message))
        kept = [
            record
            for record in records
            if record.offset > self._map.latest
            or (
                record.key is not None
                and record.offset >= self._map.get(record.key)
                and (record.value is not None or self.legacy_deletes_stay)
            )
        ]
        if len(kept) == len(records):
            return Verdict(None, len(kept))
        if not kept:
            return Verdict(b"", 0)
        append_time = (
            header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT and header.magic else None
        )
        return Verdict(
            build_message_set(
                kept, header.magic, compression=header.compression, log_append_time=append_time
            ),
            len(kept),
        )


def _cut_out(header: BatchHeader, records: bytes, chosen: Chosen) -> bytearray:
    """Rewrite a batch with some of its records."""
    body = b"".join([records[start:end] for start, end in chosen.ranges])
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = WallMs(header.base_timestamp + max_timestamp_delta(records, chosen.ranges))
    if header.is_compressed:
        body = compress(header.compression, body)
    out = bytearray(
        HEADER.pack(
            *header._replace(
                batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body),
                max_timestamp=max_timestamp,
                record_count=chosen.kept,
            )
        )
    )
    out += body
    patch_crc(out, 0)
    return out


def empty_batch(header: BatchHeader) -> bytearray:
    """Return a batch's header without records."""
    out = bytearray(
        HEADER.pack(
            *header._replace(
                batch_length=HEADER_SIZE - LOG_OVERHEAD,
                attributes=header.attributes & _KEPT_ATTRIBUTES,
                base_timestamp=NO_TIMESTAMP,
                record_count=0,
            )
        )
    )
    patch_crc(out, 0)
    return out
