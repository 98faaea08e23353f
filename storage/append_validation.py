"""A leader's work on records before they are written: check them, assign their offsets, convert where needed.

A v2 batch whose codec is kept is checked by its header and checksum, and patched in place. Records are walked only
where a topic asks for it: keys on a compacted topic, bounds on timestamps, another codec. Only old formats are
decoded, to be converted.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from storage.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from storage.log_config import INT64_MAX, LogConfig
from storage.producer_table import AppendOrigin
from storage.record_check import check_records
from wire.records.batch import (
    MAGIC,
    BatchHeader,
    check_crc,
    complete_size,
    patch_log_append_time,
    patch_offset_and_epoch,
    peek_magic,
    read_header,
)
from wire.records.builder import recompress_batch
from wire.records.compression import Compression
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.legacy import iter_legacy, up_convert
from wire.records.record import Record, records_bytes
from wire.types import NO_TIMESTAMP, LeaderEpoch, Offset, WallMs

_ERRORS_SHOWN: Final = 3


class PreparedBatch(NamedTuple):
    """One batch, ready to be written.

    `header` is as the client sent it, or as we built it; `first_offset` and `last_offset` are what was
    patched into `data`.
    """

    data: memoryview | bytearray
    header: BatchHeader
    first_offset: Offset
    last_offset: Offset
    max_timestamp: WallMs
    log_append_time: WallMs


def prepare_batch(
    records: memoryview | bytearray,
    config: LogConfig,
    first_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: WallMs,
    origin: AppendOrigin,
) -> PreparedBatch:
    """Check and patch the records that a client or coordinator appends.

    Args:
        records: the whole message set; patched in place where possible. An incomplete last batch is dropped.
        config: the topic's settings.
        first_offset: the log's end, which becomes the offset of the first record.
        leader_epoch: our epoch, which becomes the batch's.
        now: becomes each record's timestamp where the topic says LogAppendTime.
        origin: who sent it.

    Raises:
        CorruptBatchError: a checksum does not match, or a size is impossible.
        RecordTooLargeError: the batch is above `max.message.bytes`.
        InvalidRecordError: the batch contradicts itself, is not exactly one, or has records that the topic does not
            accept.
        UnsupportedCodecError: an unknown codec, or one that the batch's format cannot carry.
    """
    try:
        magic = peek_magic(records)
        if magic == MAGIC:
            return _prepare_v2(records, config, first_offset, leader_epoch, now, origin)
        if magic in (0, 1):
            return _prepare_legacy(records, config, first_offset, leader_epoch, now)
        raise CorruptBatchError(f"a batch of magic {magic}")
    except CorruptRecordError as error:
        raise CorruptBatchError(str(error)) from error
    except UnsupportedCompressionError as error:
        raise UnsupportedCodecError(str(error)) from error


def _prepare_v2(
    records: memoryview | bytearray,
    config: LogConfig,
    first_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: WallMs,
    origin: AppendOrigin,
) -> PreparedBatch:
    header = read_header(records)
    size = header.size
    if size != len(records):
        if size > len(records):
            raise InvalidRecordError("the records hold no whole batch")
        if complete_size(memoryview(records)[size:]):
            raise InvalidRecordError("the records hold more than one batch")
        records = memoryview(records)[:size]
    if size > config.max_message_bytes and not header.is_control:
        raise RecordTooLargeError(
            f"a batch of {size} bytes, which exceeds the maximum of {config.max_message_bytes} bytes"
        )
    _check_header(header, origin)
    check_crc(records, 0, header)
    target = _target_codec(config, header.compression)
    append_time = now if config.is_log_append_time else None
    if target is not header.compression and not (header.is_control and not header.is_compressed):
        return _recompress(records, header, target, config, first_offset, leader_epoch, now)
    if _must_look_inside(config, header, now, origin):
        _check_records(records, header, config, now)
    patch_offset_and_epoch(records, 0, first_offset, leader_epoch)
    if append_time is not None:
        patch_log_append_time(records, 0, append_time)
    return PreparedBatch(
        records,
        header,
        first_offset,
        Offset(first_offset + header.last_offset_delta),
        header.max_timestamp if append_time is None else append_time,
        NO_TIMESTAMP if append_time is None else append_time,
    )


def _check_header(header: BatchHeader, origin: AppendOrigin) -> None:
    if header.is_log_append_time:
        raise InvalidTimestampError(
            "the timestamps of a batch are marked as the broker's, which is not for producers to say"
        )
    if header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        raise InvalidRecordError(
            f"a batch of {header.record_count} records whose last offset delta is {header.last_offset_delta}"
        )
    if origin is AppendOrigin.CLIENT:
        if header.base_offset != 0:
            raise InvalidRecordError(f"the batch's base offset should be 0, and is {header.base_offset}")
        if header.is_control:
            raise InvalidRecordError("control records are not for clients to write")
        if header.has_producer_id and header.base_sequence < 0:
            raise InvalidRecordError(
                f"a batch of producer {header.producer_id} has the sequence number {header.base_sequence}"
            )


def _target_codec(config: LogConfig, source: Compression) -> Compression:
    if config.keeps_producer_compression:
        return source
    if config.compression_type == "uncompressed":
        return Compression.NONE
    return Compression.from_kafka_name(config.compression_type)


def _level(config: LogConfig, codec: Compression) -> int | None:
    match codec:
        case Compression.GZIP:
            return config.compression_gzip_level if config.compression_gzip_level != -1 else None
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
    return None


def _must_look_inside(config: LogConfig, header: BatchHeader, now: WallMs, origin: AppendOrigin) -> bool:
    if origin is not AppendOrigin.CLIENT:
        return False
    if config.compacts:
        return True
    if config.is_log_append_time:
        return False
    # The greatest timestamp is in the header, the least is not.
    return config.timestamp_before_max_ms != INT64_MAX or (
        header.max_timestamp - now > config.timestamp_after_max_ms
    )


def _check_records(
    records: memoryview | bytearray, header: BatchHeader, config: LogConfig, now: WallMs
) -> tuple[bytes, WallMs]:
    """Check records against the topic's settings; return them, decompressed, and their greatest timestamp."""
    earliest, latest = _bounds(config, now)
    try:
        data = records_bytes(records, 0, header)
        found = check_records(data, header, earliest, latest)
    except CorruptRecordError as error:
        # The checksum matches: the producer wrote it so.
        raise InvalidRecordError(str(error)) from error
    _refuse(found.keyless, found.untimely, config, now)
    return data, found.max_timestamp


def _bounds(config: LogConfig, now: WallMs) -> tuple[int, int]:
    """Return the least and the greatest timestamp that a record may have."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if config.is_log_append_time:
        before = after = INT64_MAX
    return now - before, now + after


def _refuse(
    keyless: Sequence[int], untimely: Sequence[tuple[int, WallMs]], config: LogConfig, now: WallMs
) -> None:
    """Raise an error that names each invalid record once; return if there is none."""
    wrong: dict[int, str] = {}
    if config.compacts:
        wrong |= dict.fromkeys(keyless, "Compacted topic cannot accept message without key")
    bad_time = False
    for index, timestamp in untimely:
        if index not in wrong:
            bad_time = True
            earliest, latest = _bounds(config, now)
            wrong[index] = (
                f"Timestamp {timestamp} is out of range: it should be within [{earliest}, {latest}]"
            )
    if not wrong:
        return
    errors = [RecordError(index, wrong[index]) for index in sorted(wrong)]
    if bad_time:
        raise InvalidTimestampError("One or more records have been rejected due to invalid timestamp", errors)
    shown = "; ".join(f"{error.batch_index}: {error.message}" for error in errors[:_ERRORS_SHOWN])
    raise InvalidRecordError(f"{len(errors)} records have been rejected, the first of them: {shown}", errors)


def _recompress(
    records: memoryview | bytearray,
    header: BatchHeader,
    codec: Compression,
    config: LogConfig,
    first_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: WallMs,
) -> PreparedBatch:
    data, max_timestamp = _check_records(records, header, config, now)
    batch = recompress_batch(header, data, codec, _level(config, codec), max_timestamp)
    patch_offset_and_epoch(batch, 0, first_offset, leader_epoch)
    if config.is_log_append_time:
        patch_log_append_time(batch, 0, now)
    return _built(batch, config, now)


def _prepare_legacy(
    records: memoryview | bytearray,
    config: LogConfig,
    first_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: WallMs,
) -> PreparedBatch:
    size = complete_size(records)
    if not size:
        raise InvalidRecordError("the records hold no whole message")
    records = memoryview(records)[:size]
    if size > config.max_message_bytes:
        _check_message_sizes(records, config)
    _check_legacy(list(iter_legacy(records)), config, now)
    codec = None if config.keeps_producer_compression else _target_codec(config, Compression.NONE)
    data = up_convert(
        records,
        base_offset=first_offset,
        leader_epoch=leader_epoch,
        compression=codec,
        level=None if codec is None else _level(config, codec),
        log_append_time=now if config.is_log_append_time else None,
    )
    return _built(data, config, now)


def _check_legacy(records: Sequence[Record], config: LogConfig, now: WallMs) -> None:
    earliest, latest = _bounds(config, now)
    _refuse(
        [index for index, record in enumerate(records) if record.key is None],
        [
            (index, WallMs(record.timestamp))
            for index, record in enumerate(records)
            if record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest
        ],
        config,
        now,
    )


def _check_message_sizes(records: memoryview | bytearray, config: LogConfig) -> None:
    position = 0
    while position < len(records):
        size = 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        if size > config.max_message_bytes:
            raise RecordTooLargeError(
                f"a message of {size} bytes, which exceeds the maximum of {config.max_message_bytes} bytes"
            )
        position += size


def _built(data: bytearray, config: LogConfig, now: WallMs) -> PreparedBatch:
    header = read_header(data)
    if header.size > config.max_message_bytes:
        raise RecordTooLargeError(
            f"a batch of {header.size} bytes after conversion, "
            f"which exceeds the maximum of {config.max_message_bytes} bytes"
        )
    append_time = now if config.is_log_append_time else NO_TIMESTAMP
    return PreparedBatch(
        data, header, header.base_offset, header.last_offset, header.max_timestamp, append_time
    )
