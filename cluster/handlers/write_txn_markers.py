"""WriteTxnMarkers 0 to 1: a transaction's coordinator, or a tool, ends transactions in partitions led here.

There is no request-level error: each partition has its own. Markers from a connection that the coordinator has closed
since are not written: it sends them again elsewhere, and these could come after its next transaction.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.coordinator.transactions.marker_writes import Marker
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasTransactions
    from cluster.handlers.registry import Registry

logger = logging.getLogger(__name__)


def register(registry: "Registry") -> None:
    """Serve WriteTxnMarkers."""
    registry.add(ApiKey.WRITE_TXN_MARKERS, 0, 1, begin)


def begin(call: "ApiCall[HasTransactions]") -> None:
    """Write the markers, and answer when the in-sync replicas have them."""
    request: WriteTxnMarkersRequest = call.request
    if call.client_has_gone:
        logger.info(
            "%d markers are not written: their coordinator has closed the connection", len(request.markers)
        )
        call.close()
        return
    markers = [
        Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            tuple(
                TopicPartition(topic.name, index)
                for topic in marker.topics
                for index in topic.partition_indexes
            ),
        )
        for marker in request.markers
    ]

    def answer(outcomes: Sequence[dict[TopicPartition, Error]]) -> None:
        results = [
            _result(marker, outcome) for marker, outcome in zip(request.markers, outcomes, strict=True)
        ]
        call.respond(WriteTxnMarkersResponse(markers=results))

    call.broker.transactions.marker_writes.write(markers, answer)


def _result(marker: WritableTxnMarker, outcome: dict[TopicPartition, Error]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=int(outcome[TopicPartition(topic.name, index)])
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
