"""Sends markers to one other broker: many in a request, over a few connections.

A request is answered only when its slowest partition is. Another connection is opened when markers have waited for
`_CROWDED_MS` behind unanswered requests, up to `_LANES_MAX` connections.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.coordinator.transactions.waiting_marker import Completion, WaitingMarker
from cluster.network.broker_client import ConnectionFailedError
from timing.timing_wheel import CallTimer, Timer
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wire.types import BrokerId, ProducerId, TopicPartition

if TYPE_CHECKING:
    import trio

logger = logging.getLogger(__name__)

_VERSION: Final = 1
"""The version that brokers use from inter.broker.protocol.version 2.8 on."""
_MARKERS_MAX: Final = 2_000
_LANES_MAX: Final = 4
_CROWDED_MS: Final = 100

OnSettled = Callable[[WaitingMarker, Error], None]


class MarkerLanes:
    """Markers for one broker.

    Args:
        broker_id: The broker.
        connect: Makes a channel to it.
        on_settled: Called once with the outcome of each marker.
        timer: Reports when markers have waited for long.
        nursery: Where requests run.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        connect: Callable[[], PeerChannel],
        on_settled: OnSettled,
        timer: Timer,
        nursery: "trio.Nursery",
    ) -> None:
        self._broker_id = broker_id
        self._connect = connect
        self._on_settled = on_settled
        self._timer = timer
        self._nursery = nursery
        self._queue: dict[WaitingMarker, None] = {}
        self._idle: list[PeerChannel] = []
        self._busy = 0
        self._sent = 0
        self._crowded = CallTimer(self._look_at_queue)

    @property
    def waiting(self) -> int:
        """How many markers have no outcome yet."""
        return len(self._queue) + self._sent

    def put(self, marker: WaitingMarker) -> None:
        """Queue a marker to be sent."""
        self._queue[marker] = None
        if not self._busy:
            self._open_lane()
        elif not self._crowded.is_pending:
            self._timer.add(self._crowded, _CROWDED_MS)

    def _look_at_queue(self) -> None:
        if self._queue:
            if self._busy < _LANES_MAX:
                self._open_lane()
            self._timer.add(self._crowded, _CROWDED_MS)

    def _open_lane(self) -> None:
        self._busy += 1
        self._nursery.start_soon(self._run, name=f"markers for broker {self._broker_id}")

    async def _run(self) -> None:
        channel = self._idle.pop() if self._idle else self._connect()
        try:
            while True:
                markers = self._take()
                if not markers:
                    break
                self._sent += len(markers)
                outcomes = await self._send(channel, markers)
                self._sent -= len(markers)
                for marker in markers:
                    error = (
                        outcomes
                        if isinstance(outcomes, Error)
                        else outcomes.get((marker.completion.transaction.record.producer_id, marker.at))
                    )
                    self._on_settled(marker, Error.NETWORK_EXCEPTION if error is None else error)
        finally:
            self._busy -= 1
            self._idle.append(channel)

    def _take(self) -> list[WaitingMarker]:
        """Take the markers for one request: one transaction per producer id, because the response names only these."""
        taken: list[WaitingMarker] = []
        producers: dict[ProducerId, Completion] = {}
        for marker in tuple(self._queue):
            completion = marker.completion
            if completion.is_over:
                del self._queue[marker]
                continue
            producer_id = completion.transaction.record.producer_id
            if producers.setdefault(producer_id, completion) is completion:
                del self._queue[marker]
                taken.append(marker)
                if len(taken) == _MARKERS_MAX:
                    break
        return taken

    async def _send(
        self, channel: PeerChannel, markers: list[WaitingMarker]
    ) -> Error | Mapping[tuple[ProducerId, TopicPartition], Error]:
        try:
            return _read(await channel.request(_request(markers), _VERSION))
        except ConnectionFailedError as failure:
            logger.info("%d markers for broker %d are sent again: %s", len(markers), self._broker_id, failure)
        except ApiError:
            pass  # the broker is not live: the markers look for another leader
        except RemoteProtocolError as failure:
            logger.error("broker %d answers WriteTxnMarkers wrongly: %s", self._broker_id, failure)
        return Error.NETWORK_EXCEPTION


def _request(markers: list[WaitingMarker]) -> WriteTxnMarkersRequest:
    by_completion: dict[Completion, dict[str, list[int]]] = {}
    for marker in markers:
        topics = by_completion.setdefault(marker.completion, {})
        topics.setdefault(marker.at.topic, []).append(marker.at.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=completion.transaction.record.producer_id,
                producer_epoch=completion.transaction.record.producer_epoch,
                transaction_result=completion.is_commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
                coordinator_epoch=completion.partition.epoch,
            )
            for completion, topics in by_completion.items()
        ]
    )


def _read(response: WriteTxnMarkersResponse) -> dict[tuple[ProducerId, TopicPartition], Error]:
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): Error.from_code(
            each.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
