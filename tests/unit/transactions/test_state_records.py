"""Records of transactional ids are Kafka's own, byte for byte, and unreadable ones are refused."""

import struct

import pytest

from cluster.coordinator.transactions.state_records import (
    id_in,
    peek_state,
    record_in,
    state_key,
    state_value,
    updated_at,
)
from cluster.statemachines.transaction import TransactionRecord, TransactionState
from wire.errors import RemoteProtocolError
from wire.types import ProducerEpoch, ProducerId, TopicPartition, WallMs

S = TransactionState
ON_DISK = [state for state in S if state is not S.DEAD]


def record(state: S) -> TransactionRecord:
    open_ = state is S.ONGOING or state.is_prepared
    return TransactionRecord(
        ProducerId(2**40 + 7),
        ProducerEpoch(3),
        60_000,
        state,
        frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)})
        if open_
        else frozenset(),
        WallMs(1_700_000_000_001),
        WallMs(-1) if state is S.EMPTY else WallMs(1_700_000_000_000),
    )


def bytes_of(state: S) -> bytes:
    """Encode a value by hand, by Kafka's TransactionLogValue version 0."""
    if state is S.EMPTY:
        partitions = struct.pack(">i", -1)
    elif state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        partitions = struct.pack(">i", 0)
    else:
        partitions = struct.pack(">ih1siii h1sii".replace(" ", ""), 2, 1, b"a", 2, 0, 2, 1, b"b", 1, 1)
    started = -1 if state is S.EMPTY else 1_700_000_000_000
    head = struct.pack(">hqhib", 0, 2**40 + 7, 3, 60_000, ON_DISK.index(state))
    return head + partitions + struct.pack(">qq", 1_700_000_000_001, started)


@pytest.mark.parametrize("state", ON_DISK)
def test_each_state_as_kafka_writes_it(state: S) -> None:
    value = state_value(record(state))
    assert value == bytes_of(state)
    assert record_in(value) == record(state)
    assert peek_state(value) is state
    assert updated_at(value) == 1_700_000_000_001


def test_keys() -> None:
    assert state_key("müller") == b"\0\0\0\7m\xc3\xbcller"
    assert id_in(state_key("müller")) == "müller"
    assert id_in(b"\0\1whatever a later Kafka puts here") is None


def test_what_is_never_on_disk_is_not_written() -> None:
    with pytest.raises(ValueError, match="not for the log"):
        state_value(TransactionRecord(ProducerId(1), state=S.DEAD))
    with pytest.raises(ValueError, match="not for the log"):
        state_value(TransactionRecord(ProducerId(1), partitions=frozenset({TopicPartition("a", 0)})))


def test_values_in_compact_lengths_are_read() -> None:
    head = struct.pack(">hqhib", 1, 5, 2, 1000, 1)
    value = head + b"\2" + b"\2a" + b"\2" + struct.pack(">i", 3) + b"\0" + struct.pack(">qq", 8, 9) + b"\0"
    assert record_in(value).partitions == {TopicPartition("a", 3)}
    assert peek_state(value) is S.ONGOING
    assert updated_at(value) == 8


@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytes_of(S.EMPTY)[:-1],
        b"\0\7" + bytes_of(S.EMPTY)[2:],
        bytes_of(S.EMPTY)[:16] + b"\6" + bytes_of(S.EMPTY)[17:],
        bytes_of(S.EMPTY)[:16] + b"\1" + bytes_of(S.EMPTY)[17:],  # ONGOING without a list of partitions
    ],
)
def test_what_cannot_be_read_is_refused(value: bytes) -> None:
    for read in (record_in, peek_state):
        with pytest.raises(RemoteProtocolError):
            read(value)
