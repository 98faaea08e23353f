"""The records of ``__transaction_state``: the state of a transactional id to and from bytes.

Written at version 0, as Kafka does in ZooKeeper mode; version 1, the same in compact lengths, is read too. Of most ids
a coordinator needs only the state and the age, which are at fixed positions in version 0:

value  version [2] int16 = 0, producer id [8] int64, epoch [2] int16, timeout ms [4] int32, state [1] int8,
       partitions [4 + ...] nullable array, last update [8] int64, start [8] int64
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from cluster.coordinator.group_records import KeyedRecord
from cluster.statemachines.transaction import TransactionRecord, TransactionState
from wire.errors import RemoteProtocolError
from wire.formats.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from wire.formats.versioned import decode_versioned, encode_versioned, peek_version
from wire.types import TopicPartition, WallMs

_VERSION: Final = 0
_FIXED: Final = struct.Struct(">hqhibi")
_UPDATED_AT: Final = struct.Struct(">q")
_UPDATED_FROM_END: Final = 16
_SIZE_MIN: Final = _FIXED.size + _UPDATED_FROM_END
_STATES: Final[Mapping[int, TransactionState]] = {
    state.value: state for state in TransactionState if state is not TransactionState.DEAD
}


def state_key(transactional_id: str) -> bytes:
    """Encode an id's key."""
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), _VERSION)


def id_in(key: bytes) -> str | None:
    """Read a key; return None for an unknown version, whose record is to be skipped.

    Raises:
        RemoteProtocolError: the bytes are not a key.
    """
    if peek_version(key) != _VERSION:
        return None
    return decode_versioned(TransactionLogKey, key).transactional_id


def state_record(transactional_id: str, value: bytes | None, now: WallMs) -> KeyedRecord:
    """Make the record of an id; with None its tombstone."""
    return KeyedRecord(now, state_key(transactional_id), value)


def state_value(record: TransactionRecord) -> bytes:
    """Encode the state of an id.

    Raises:
        ValueError: a state that is never on disk, or one with partitions that must have none.
    """
    state = record.state
    if state is TransactionState.DEAD or (state is TransactionState.EMPTY and record.partitions):
        raise ValueError(f"{record} is not for the log")
    partitions = None
    if state is not TransactionState.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=numbers)
            for topic, numbers in _by_topic(record.partitions).items()
        ]
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=state.value,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=record.updated_at,
        transaction_start_timestamp_ms=record.started_at,
    )
    return encode_versioned(value, _VERSION)


def record_in(value: bytes) -> TransactionRecord:
    """Read a value.

    Raises:
        RemoteProtocolError: the bytes are malformed, or have an unknown state or version.
    """
    read = decode_versioned(TransactionLogValue, value)
    state = _STATES.get(read.transaction_status)
    if state is None:
        raise RemoteProtocolError(f"there is no transaction state {read.transaction_status}")
    if read.transaction_partitions is None and state is not TransactionState.EMPTY:
        raise RemoteProtocolError(f"a transaction is in {state.kafka_name} and has no list of partitions")
    return TransactionRecord(
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(each.topic, number)
            for each in read.transaction_partitions or ()
            for number in each.partition_ids
        ),
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
    )


def peek_state(value: bytes) -> TransactionState:
    """Read a value's state without the rest, of which only the size and kind are checked.

    Raises:
        RemoteProtocolError: as `record_in`.
    """
    if len(value) < _SIZE_MIN:
        raise RemoteProtocolError(f"a transaction's value has {len(value)} bytes")
    version, _, _, _, number, count = _FIXED.unpack_from(value)
    if version != _VERSION:
        return record_in(value).state
    state = _STATES.get(number)
    if state is None or (count < 0 and state is not TransactionState.EMPTY):
        return record_in(value).state  # raises with the reason
    return state


def updated_at(value: bytes) -> WallMs:
    """Read when an id was last written."""
    if peek_version(value) != _VERSION:
        return record_in(value).updated_at
    return WallMs(_UPDATED_AT.unpack_from(value, len(value) - _UPDATED_FROM_END)[0])


def _by_topic(partitions: frozenset[TopicPartition]) -> Mapping[str, Sequence[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics
