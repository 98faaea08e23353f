"""The lines of a .log file: one for each batch, and with `deep` one for each record."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.log_dump.batches import StoredBatch, read_batches
from ottla.log_dump.decoders import Decoder
from ottla.log_dump.failure import DumpError
from ottla.log_dump.lines import Line, Value, remark
from wire.records.end_transaction import read_end_transaction_marker
from wire.records.errors import CorruptRecordError, UnsupportedCompressionError
from wire.records.legacy import LegacyMessage
from wire.records.record import Record, read_control_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a .log is dumped.

    Attributes:
        deep: records too.
        decoder: prints their keys and values; None leaves these out.
        record_metadata: print the other fields of a record.
        max_bytes: how much of the file is looked at; None for all.
    """

    deep: bool = False
    decoder: Decoder | None = None
    record_metadata: bool = True
    max_bytes: int | None = None


def log_lines(path: Path, options: LogOptions, gaps: list[tuple[int, int]]) -> Iterator[Line]:
    """Return the lines of a .log.

    Args:
        path: the file; its name begins with its base offset.
        options: what is printed.
        gaps: takes the pairs of successive offsets that are not consecutive.

    Raises:
        DumpError: the file cannot be decoded.
        OSError: it cannot be read.
    """
    yield remark(f"Log starting offset: {base_offset_of(path)}")
    valid_bytes = 0
    last_offset = -1
    for batch in read_batches(path, size_max=options.max_bytes):
        yield _batch_line(batch)
        if options.deep:
            try:
                for record, message in batch.records():
                    if last_offset != -1 and record.offset != last_offset + 1:
                        gaps.append((last_offset, record.offset))
                    last_offset = record.offset
                    yield _record_line(batch, record, message, options)
            except (CorruptRecordError, UnsupportedCompressionError) as error:
                raise DumpError(f"{path}: the batch at {batch.position} does not read: {error}") from error
        valid_bytes += len(batch.data)
    trailing = path.stat().st_size - valid_bytes
    if trailing > 0 and options.max_bytes is None:
        yield remark(f"Found {trailing} invalid bytes at the end of {path.name}")


def base_offset_of(path: Path) -> int:
    """Read the base offset in a file's name.

    Raises:
        DumpError: there is none.
    """
    number = path.name.split(".")[0]
    if not number.isdecimal():
        raise DumpError(f"the name of {path} does not begin with the offset of its segment")
    return int(number)


def _batch_line(batch: StoredBatch) -> Line:
    header = batch.header
    fields: dict[str, Value]
    if header is None:
        fields = {"offset": batch.last_offset}
    else:
        fields = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon if header.has_delete_horizon else None,
        }
    fields |= {
        "position": batch.position,
        batch.timestamp_type: batch.max_timestamp,
        "size": len(batch.data),
        "magic": batch.magic,
        "compresscodec": batch.compression.name.lower(),
        "crc": batch.crc,
        "isvalid": batch.is_valid,
    }
    return Line("batch", fields)


def _record_line(
    batch: StoredBatch, record: Record, message: LegacyMessage | None, options: LogOptions
) -> Line:
    fields: dict[str, Value] = {}
    header = batch.header
    is_control = header is not None and header.is_control
    if options.record_metadata:
        fields |= {
            "offset": record.offset,
            batch.timestamp_type: record.timestamp,
            "keySize": _size(record.key),
            "valueSize": _size(record.value),
        }
        if message is None:
            fields |= {"sequence": record.sequence, "headerKeys": [key for key, _ in record.headers]}
        else:
            fields |= {"isValid": True, "crc": message.crc}
        if is_control:
            fields |= _control(record)
    if options.decoder is not None and not is_control:
        key, payload = options.decoder(record)
        if key is not None:
            fields["key"] = key
        if payload is not None:
            fields["payload"] = payload
    return Line("record", fields)


def _control(record: Record) -> dict[str, Value]:
    marker = read_end_transaction_marker(record)
    if marker is not None:
        return {"endTxnMarker": marker.control_type.name, "coordinatorEpoch": marker.coordinator_epoch}
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return {"controlType": f"{read_control_type(record.key).name}({number})"}


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)
