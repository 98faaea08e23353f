"""How keys and values of records are printed: as text or numbers, or decoded as those of internal topics."""

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from ottla.log_dump.failure import DumpError
from ottla.log_dump.message_json import to_json
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.formats.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from wire.formats.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wire.formats.transaction_log import TransactionLogKey, TransactionLogValue
from wire.formats.versioned import decode_forward_compatible, decode_versioned, peek_version
from wire.records.record import Record
from wire.schema import Data

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""Returns the key and the value of a record as they are printed; None prints nothing."""

_GROUP_KEY_VERSION: Final = 2
_CONSUMER: Final = "consumer"
_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDecoder": lambda data: data.decode(errors="replace"),
    "LongDecoder": lambda data: str(struct.unpack(">q", data)[0]),
    "IntegerDecoder": lambda data: str(struct.unpack(">i", data)[0]),
}
_PACKAGES: Final = ("org.apache.kafka.tools.api.", "kafka.serializer.", "")


def plain_decoder(key_class: str, value_class: str) -> Decoder:
    """Make a decoder from two of Kafka's own decoder classes.

    Raises:
        DumpError: a class is not one of those built in: Java classes cannot be loaded.
    """
    read_key, read_value = _decode_by(key_class), _decode_by(value_class)

    def decode(record: Record) -> tuple[str | None, str | None]:
        try:
            return (
                None if record.key is None else read_key(record.key),
                None if record.value is None else read_value(record.value),
            )
        except struct.error as error:
            raise DumpError(f"the record at offset {record.offset} is no such number: {error}") from error

    return decode


def _decode_by(name: str) -> Callable[[bytes], str]:
    for package in _PACKAGES:
        found = _DECODERS.get(name.removeprefix(package)) if name.startswith(package) else None
        if found is not None:
            return found
    known = ", ".join(f"org.apache.kafka.tools.api.{each}" for each in _DECODERS)
    raise DumpError(f"the decoder {name} is Java, which cannot be loaded here; there are {known}")


def decode_offsets(record: Record) -> tuple[str | None, str | None]:
    """Print a record of `__consumer_offsets`.

    Raises:
        DumpError: it has no key.
    """
    if record.key is None:
        raise DumpError(
            f"Failed to decode message at offset {record.offset} using offset topic decoder "
            "(message had a missing key)"
        )
    try:
        version = peek_version(record.key)
        kinds: tuple[type[Data], type[Data]]
        if version in OffsetCommitKey.__schema__.versions:
            kinds = OffsetCommitKey, OffsetCommitValue
        elif version == _GROUP_KEY_VERSION:
            kinds = GroupMetadataKey, GroupMetadataValue
        else:
            return f"Unknown record type {version} at offset {record.offset}, skipping.", None
        key = {"type": str(version), "data": to_json(decode_versioned(kinds[0], record.key), version)}
        if record.value is None:
            return _compact(key), "<DELETE>"
        value = decode_versioned(kinds[1], record.value)
        value_version = peek_version(record.value)
        data = to_json(value, value_version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == _CONSUMER:
            for member in data["members"]:
                _open_protocol(member, "subscription", ConsumerProtocolSubscription)
                _open_protocol(member, "assignment", ConsumerProtocolAssignment)
        return _compact(key), _compact({"version": str(value_version), "data": data})
    except (RemoteProtocolError, UnsupportedVersionError) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _open_protocol(member: dict[str, Any], name: str, kind: type[Data]) -> None:
    """Decode the bytes of the consumer protocol in place; leave bytes that do not decode."""
    import base64

    data = base64.b64decode(member[name])
    try:
        version = min(peek_version(data), kind.__schema__.versions.last)
        member[name] = to_json(decode_forward_compatible(kind, data), version)
    except (RemoteProtocolError, UnsupportedVersionError):
        return


def decode_transactions(record: Record) -> tuple[str | None, str | None]:
    """Print a record of `__transaction_state`.

    Raises:
        DumpError: it cannot be decoded.
    """
    try:
        if record.key is None:
            raise DumpError(
                f"the record at offset {record.offset} has no key: it is none of a transaction log"
            )
        version = peek_version(record.key)
        if version not in TransactionLogKey.__schema__.versions:
            return f"unknown::version={version}", None
        key = decode_versioned(TransactionLogKey, record.key)
        shown = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return shown, "<DELETE>"
        value = decode_versioned(TransactionLogValue, record.value)
    except (RemoteProtocolError, UnsupportedVersionError) as error:
        raise DumpError(
            f"the record at offset {record.offset} is none of a transaction log: {error}"
        ) from error
    if not 0 <= value.transaction_status < len(_TRANSACTION_STATES):
        raise DumpError(f"Unknown transaction state id {value.transaction_status} at offset {record.offset}")
    partitions = ",".join(
        f"{each.topic}-{number}"
        for each in value.transaction_partitions or ()
        for number in each.partition_ids
    )
    return shown, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
        f"state={_TRANSACTION_STATES[value.transaction_status]},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
