"""AddPartitionsToTxn: register partitions with a transaction, or verify that they are.

Versions up to 3 are sent by clients, the later ones by brokers.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: the answer may be PRODUCER_FENCED.
    3: compact lengths and tagged fields (flexible).
    4: several transactions at once, verify_only.
    5: the answer may be TRANSACTION_ABORTABLE (KIP-890).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import ProducerEpoch, ProducerId


class AddPartitionsToTxnTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(STRING)
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    verify_only: bool = field(BOOL)
    topics: Sequence[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic))


class AddPartitionsToTxnRequest(Request, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    transactions: Sequence[AddPartitionsToTxnTransaction] = field(
        array(AddPartitionsToTxnTransaction), versions="4+"
    )
    v3_and_below_transactional_id: str = field(STRING, versions="0-3")
    v3_and_below_producer_id: ProducerId = field(INT64, versions="0-3")
    v3_and_below_producer_epoch: ProducerEpoch = field(INT16, versions="0-3")
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = field(
        array(AddPartitionsToTxnTopic), versions="0-3"
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(STRING)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = field(
        array(AddPartitionsToTxnPartitionResult)
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(STRING)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult))


class AddPartitionsToTxnResponse(Response, api=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, versions="4+", ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field(
        array(AddPartitionsToTxnResult), versions="4+"
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), versions="0-3"
    )
