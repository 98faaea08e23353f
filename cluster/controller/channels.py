"""A channel to each broker: first in, first out, one request at a time, retried until the broker leaves.

What a broker can rely on: it receives requests in order, and each at least once while it is registered, unless its
queue overflows. What follows for brokers: they compare epochs, because "at least once" may mean twice.

What we rely on: a request is put into the channel only after what it announces is durable. And nothing leaves
while the session is not known to live: a controller that was suspended (SIGSTOP, a frozen virtual machine)
wakes up with its channels full of decisions that another controller has overruled meanwhile.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import trio

from cluster.controller.merged_metadata import MergedMetadata
from cluster.network.broker_client import BrokerChannel
from cluster.zookeeper.znodes import BrokerRegistration
from wire.errors import RemoteProtocolError
from wire.messages.leader_and_isr import LeaderAndIsrRequest
from wire.messages.stop_replica import StopReplicaRequest
from wire.messages.update_metadata import UpdateMetadataRequest
from wire.schema import Response
from wire.types import BrokerId

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S: Final = 0.1
MERGE_FROM_REQUESTS: Final = 100
"""When this many requests wait for a broker, further UpdateMetadata requests are merged into one."""
MAX_QUEUED_REQUESTS: Final = 100_000
"""Requests queued per broker; past that, the broker receives nothing further until it registers again."""

ControlMessage = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request to a broker, and the version in which it is sent."""

    message: ControlMessage
    version: int


OpenChannel = Callable[[BrokerRegistration], BrokerChannel]
OnAnswer = Callable[[BrokerRegistration, ControlRequest, Response], None]


class _Channel:
    """The queue and the connection for one registration of one broker."""

    def __init__(self, registration: BrokerRegistration, connection: BrokerChannel) -> None:
        self.registration = registration
        self.connection = connection
        self.queue: deque[ControlRequest | MergedMetadata] = deque()
        self.scope = trio.CancelScope()
        self.put_count = 0
        self.answered_count = 0
        self._filled = trio.Event()
        self._merged: MergedMetadata | None = None
        self._metadata_version = 0
        self._is_overrun = False

    def put(self, request: ControlRequest) -> None:
        """Queue a request, unless the broker has missed one: it would act on only some of our decisions."""
        if self._is_overrun:
            return
        if len(self.queue) >= MAX_QUEUED_REQUESTS:
            self._is_overrun = True
            logger.error(
                "broker %d is registered and has not answered %d requests: it gets no more until it registers again; "
                "restart it",
                self.registration.broker_id,
                len(self.queue),
            )
            return
        message = request.message
        if isinstance(message, UpdateMetadataRequest) and len(self.queue) >= MERGE_FROM_REQUESTS:
            self._metadata_version = request.version
            if self._merged is not None:
                self._merged.add(message)
                return
            self._merged = MergedMetadata(message)
            self.queue.append(self._merged)
        else:
            self.queue.append(request)
        self.put_count += 1
        self._filled.set()

    async def wait_first(self) -> ControlRequest:
        while not self.queue:
            self._filled = trio.Event()
            await self._filled.wait()
        first = self.queue[0]
        if isinstance(first, MergedMetadata):
            self._merged = None
            first = self.queue[0] = ControlRequest(first.message(), self._metadata_version)
        return first


class Channels:
    """The channels of one controller to all registered brokers."""

    def __init__(
        self,
        open_channel: OpenChannel,
        *,
        may_send: Callable[[], bool],
        on_answer: OnAnswer,
    ) -> None:
        """Prepare channels; ``start`` gives them a place to run.

        Args:
            open_channel: Makes the connection to a broker.
            may_send: Whether this controller is known to hold its session; asked before each sending.
            on_answer: Called with each response, in the order of its broker's requests.
        """
        self._open_channel = open_channel
        self._may_send = may_send
        self._on_answer = on_answer
        self._channels: dict[BrokerId, _Channel] = {}
        self._nursery: trio.Nursery | None = None
        self._answered = trio.Event()

    def start(self, nursery: trio.Nursery) -> None:
        """Run the senders in ``nursery`` from now on."""
        self._nursery = nursery

    def open(self, registration: BrokerRegistration) -> None:
        """Open the channel to a broker that registered; one for an earlier registration is closed first."""
        if self._nursery is None:
            raise RuntimeError("channels are opened only while the controller runs")
        self.close(registration.broker_id)
        channel = _Channel(registration, self._open_channel(registration))
        self._channels[registration.broker_id] = channel
        self._nursery.start_soon(
            self._send_all, channel, name=f"controller channel to broker {registration.broker_id}"
        )

    def close(self, broker_id: BrokerId) -> None:
        """Close the channel to a broker that left; unsent requests are dropped."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.queue.clear()
            channel.scope.cancel()

    def close_all(self) -> None:
        """Close every channel: we are no longer the controller."""
        for broker_id in list(self._channels):
            self.close(broker_id)

    def put(self, broker_id: BrokerId, request: ControlRequest) -> None:
        """Queue a request; one for a broker without a channel is dropped, because that broker is gone."""
        channel = self._channels.get(broker_id)
        if channel is None:
            message = type(request.message).__name__
            logger.warning("broker %d is gone, it does not hear %s", broker_id, message)
            return
        channel.put(request)

    def backlog(self) -> dict[BrokerId, int]:
        """Return the number of requests that wait, by broker."""
        return {broker_id: len(channel.queue) for broker_id, channel in self._channels.items()}

    async def wait_sent(self) -> None:
        """Wait until every request is answered, except those to brokers that have gone."""
        while any(self.backlog().values()):
            await self._answered.wait()

    async def wait_heard(self, broker_ids: Collection[BrokerId]) -> None:
        """Wait until some brokers have answered what is queued for them now, or have gone.

        Requests queued later are not waited for, so this returns on a busy cluster, too.
        """
        wanted = [
            (channel, channel.put_count)
            for broker_id, channel in self._channels.items()
            if broker_id in broker_ids
        ]
        for channel, count in wanted:
            while channel.answered_count < count and not channel.scope.cancel_called:
                await self._answered.wait()

    async def _send_all(self, channel: _Channel) -> None:
        try:
            with channel.scope:
                while True:
                    request = await channel.wait_first()
                    response = await self._send(channel, request)
                    if channel.scope.cancel_called:
                        return  # closed while the response was on its way to us: the queue is cleared
                    channel.queue.popleft()
                    channel.answered_count += 1
                    self._on_answer(channel.registration, request, response)
                    self._wake_waiting()
        finally:
            channel.connection.close()
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        answered, self._answered = self._answered, trio.Event()
        answered.set()

    async def _send(self, channel: _Channel, request: ControlRequest) -> Response:
        """Send a request until it is answered."""
        failures = 0
        while True:
            if self._may_send():
                try:
                    response: Response = await channel.connection.request(request.message, request.version)
                except (OSError, RemoteProtocolError) as error:
                    channel.connection.close()
                    failures += 1
                    if failures == 1:
                        logger.warning(
                            "broker %d cannot be reached: %s", channel.registration.broker_id, error
                        )
                else:
                    return response
            await trio.sleep(RETRY_BACKOFF_S)
