"""Keys and values of ``__transaction_state``: each transactional id's producer and transaction.

Versions of `TransactionLogValue`:
    1: compact lengths and tagged fields (flexible): read, not written.
"""

from collections.abc import Sequence

from wire.schema import INT8, INT16, INT32, INT64, STRING, Data, Struct, array, field
from wire.types import ProducerEpoch, ProducerId, WallMs


class TransactionLogKey(Data, versions="0"):
    transactional_id: str = field(STRING)


class PartitionsSchema(Struct):
    topic: str = field(STRING)
    partition_ids: Sequence[int] = field(array(INT32))


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    """One transactional id; ``transaction_partitions`` is None in the states that have none."""

    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: Sequence[PartitionsSchema] | None = field(array(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: WallMs = field(INT64)
    transaction_start_timestamp_ms: WallMs = field(INT64)
