"""The .snapshot file: a partition's producers as they were at an offset, which is in the file's name.

    version                  [2] int16   1
    crc                      [4] uint32  CRC-32C of everything after it
    entry count              [4] int32
    entry                    [46] each:
      producer id            [8] int64
      producer epoch         [2] int16
      last sequence          [4] int32   -1: none
      last offset            [8] int64   -1: none
      offset delta           [4] int32   of the last batch, its last offset less its first
      timestamp              [8] int64   of the last batch
      coordinator epoch      [4] int32   -1: none
      transaction's start    [8] int64   -1: no open transaction

Only the last batch of each producer is kept; the earlier ones come back from the log as far as it is scanned.
"""

import struct
from collections.abc import Collection
from typing import Final

from crc32c import crc32c

from storage.producer_entry import BatchMetadata, ProducerEntry
from wire.types import Offset, ProducerEpoch, ProducerId, WallMs

_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6


class CorruptSnapshotError(ValueError):
    """Bytes that are no producer snapshot."""


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """Return a snapshot file's bytes."""
    data = bytearray(_HEADER.pack(_VERSION, 0, len(entries)))
    for entry in entries:
        batch = entry.batches[-1] if entry.batches else None
        start = entry.transaction_first_offset
        data += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            batch.last_sequence if batch else -1,
            batch.last_offset if batch else -1,
            batch.offset_delta if batch else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if start is None else start,
        )
    struct.pack_into(">I", data, 2, crc32c(memoryview(data)[_CHECKED_FROM:]))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read a snapshot file's bytes.

    Raises:
        CorruptSnapshotError: another version, a wrong checksum, or a wrong length.
    """
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"a snapshot of {len(data)} bytes")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"a snapshot of version {version}, expected {_VERSION}")
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        raise CorruptSnapshotError("the checksum does not fit")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries in {len(data)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, start = fields
        entry = ProducerEntry(
            ProducerId(producer_id),
            ProducerEpoch(epoch),
            coordinator_epoch,
            WallMs(timestamp),
            Offset(start) if start >= 0 else None,
        )
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, Offset(offset), delta, WallMs(timestamp)))
        entries.append(entry)
    return entries
