"""DescribeTransactions: state of transactional ids at their coordinator (KIP-664)."""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import ProducerEpoch, ProducerId, WallMs


class DescribeTransactionsRequest(Request, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    transactional_ids: Sequence[str] = field(array(STRING))


class TopicData(Struct):
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class TransactionState(Struct):
    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: WallMs = field(INT64)
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    topics: Sequence[TopicData] = field(array(TopicData))


class DescribeTransactionsResponse(Response, api=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    transaction_states: Sequence[TransactionState] = field(array(TransactionState))
