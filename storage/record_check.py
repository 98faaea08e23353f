"""Checking the records of a batch that a client sends, without making an object of any.

`wire.records.record` has the layout. A leader has to know three things of each record where the topic asks for them:
whether it has a key, what its timestamp is, and whether its offset delta is its place in the batch. The rest is skipped
by the record's length, so a megabyte of records costs milliseconds of the loop. The varints that nearly all records
have are read in place, since a call would cost as much as all the rest.
"""

from typing import NamedTuple

from wire.records.batch import BatchHeader
from wire.records.errors import CorruptRecordError
from wire.records.record import read_varint, read_varlong
from wire.types import NO_TIMESTAMP, WallMs


class CheckedRecords(NamedTuple):
    """What a walk over a batch's records found.

    Attributes:
        keyless: The places in the batch of records without a key, rising.
        untimely: The places and timestamps of records outside the bounds, rising.
        max_timestamp: The greatest timestamp, -1 where no record has one.
    """

    keyless: list[int]
    untimely: list[tuple[int, WallMs]]
    max_timestamp: WallMs


def check_records(data: bytes, header: BatchHeader, earliest: int, latest: int) -> CheckedRecords:
    """Walk the records of a batch.

    Args:
        data: The records, decompressed.
        header: Their batch's.
        earliest: The least timestamp that is allowed; a record may also have none.
        latest: The greatest.

    Raises:
        CorruptRecordError: they do not parse as the header's number of records with consecutive offsets, or a length is
            out of bounds.
    """
    keyless: list[int] = []
    untimely: list[tuple[int, WallMs]] = []
    base, greatest = header.base_timestamp, int(NO_TIMESTAMP)
    at, size = 0, len(data)
    try:
        for index in range(header.record_count):
            if (byte := data[at]) < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                at += 1
            else:
                length, at = read_varint(data, at)
            end = at + length
            at += 1  # attributes: none are defined
            if (byte := data[at]) < 0x80:
                timestamp = base + ((byte >> 1) ^ -(byte & 1))
                at += 1
            else:
                delta, at = read_varlong(data, at)
                timestamp = base + delta
            if timestamp > greatest:
                greatest = timestamp
            if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
                untimely.append((index, WallMs(timestamp)))
            if (byte := data[at]) < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                at += 1
            else:
                delta, at = read_varint(data, at)
            if delta != index:
                raise CorruptRecordError(f"record {index} of a batch has the offset delta {delta}")
            if (byte := data[at]) < 0x80:
                key_size = (byte >> 1) ^ -(byte & 1)
                at += 1
            else:
                key_size, at = read_varint(data, at)
            if key_size < 0:
                keyless.append(index)
                key_size = 0
            if at + key_size + 2 > end or end > size:  # a value and headers are at least their counts
                raise CorruptRecordError(f"record {index} of a batch claims {length} bytes")
            at = end
    except IndexError:
        raise CorruptRecordError("the batch ends inside a record") from None
    if at != size:
        raise CorruptRecordError(f"the records of a batch end {at - size} bytes off its end")
    return CheckedRecords(keyless, untimely, WallMs(greatest))
