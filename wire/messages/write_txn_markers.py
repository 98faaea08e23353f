"""WriteTxnMarkers: the transaction coordinator makes leaders append commit or abort markers.

Versions:
    1: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import ProducerEpoch, ProducerId


class WritableTxnMarkerTopic(Struct):
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


class WritableTxnMarker(Struct):
    producer_id: ProducerId = field(INT64)
    producer_epoch: ProducerEpoch = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: Sequence[WritableTxnMarkerTopic] = field(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)


class WriteTxnMarkersRequest(Request, api=ApiKey.WRITE_TXN_MARKERS, versions="0-1", flexible="1+"):
    markers: Sequence[WritableTxnMarker] = field(array(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(STRING)
    partitions: Sequence[WritableTxnMarkerPartitionResult] = field(array(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Struct):
    producer_id: ProducerId = field(INT64)
    topics: Sequence[WritableTxnMarkerTopicResult] = field(array(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Response, api=ApiKey.WRITE_TXN_MARKERS, versions="0-1", flexible="1+"):
    markers: Sequence[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))
