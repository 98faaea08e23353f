"""The marker that ends a transaction in a partition: a control batch with one record.

key    version [2] int16 = 0, type [2] int16: 0 abort, 1 commit
value  version [2] int16 = 0, coordinator epoch [4] int32
"""

import struct
from typing import Final, NamedTuple

from wire.records.builder import BatchBuilder
from wire.records.errors import CorruptRecordError
from wire.records.record import ControlType, Record, read_control_type
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, ProducerEpoch, ProducerId, WallMs

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        """Whether the transaction was committed, and its records can be read."""
        return self.control_type is ControlType.COMMIT


def build_end_transaction_marker(
    *,
    committed: bool,
    coordinator_epoch: int,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp: WallMs,
    base_offset: Offset = Offset(0),  # noqa: B008 - a NewType call is the bare int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """Write the batch that ends a producer's transaction in one partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )
    control_type = ControlType.COMMIT if committed else ControlType.ABORT
    builder.append(timestamp, _KEY.pack(0, control_type), _VALUE.pack(0, coordinator_epoch))
    return builder.build()


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """Read a control batch's record; None where it is another kind of control record.

    Raises:
        CorruptRecordError: key or value are too short, or their version is negative.
    """
    control_type = read_control_type(record.key)
    if control_type is not ControlType.ABORT and control_type is not ControlType.COMMIT:
        return None
    value = record.value
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecordError(f"an end-transaction marker has the value {value!r}")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"an end-transaction marker has version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)
