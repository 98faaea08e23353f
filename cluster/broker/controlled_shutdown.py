"""Controlled shutdown: ask the controller to move the leaders away, until none are left."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from cluster.network.broker_client import BrokerChannel, ConnectionFailedError
from wire.errors import ApiError, Error
from wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.handlers.context import BrokerContext
    from cluster.replication.metadata_cache import Node

logger = logging.getLogger(__name__)

_VERSION: Final = 3
_LOOK_S: Final = 0.5
"""How often it checks that the session with ZooKeeper is live."""


class ControlledShutdown:
    """Asks the controller to move this broker's leaders away.

    Args:
        broker: The broker.
        listener: The listener that brokers talk to each other on.
        open_channel: Makes a connection to another broker.
    """

    def __init__(
        self, broker: "BrokerContext", listener: str, open_channel: "Callable[[Node], BrokerChannel]"
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._open_channel = open_channel

    async def depart(self) -> bool:
        """Move every leader away, with `controlled.shutdown.max.retries` retries.

        Cancelled, it leaves some leaders here; they move when the broker has gone. It gives up once the session with
        ZooKeeper may be over: no controller could move a leader then.

        Returns:
            Whether no leaders are left here.
        """
        if not self._broker.config.controlled_shutdown_enable:
            return False
        has_left = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_up_without_zookeeper, nursery.cancel_scope)
            has_left = await self._give_away()
            nursery.cancel_scope.cancel()
        return has_left

    async def _give_up_without_zookeeper(self, scope: trio.CancelScope) -> None:
        broker = self._broker
        # No event reports that a session may have expired: only the elapsed time does.
        while broker.zookeeper.session_is_live(broker.clock.monotonic()):  # noqa: ASYNC110
            await trio.sleep(_LOOK_S)
        logger.warning("leaving without giving leaders away: ZooKeeper does not answer")
        scope.cancel()

    async def _give_away(self) -> bool:
        config: BrokerConfig = self._broker.config
        backoff_s = config.controlled_shutdown_retry_backoff_ms / 1000
        for attempt in range(config.controlled_shutdown_max_retries + 1):
            if attempt:
                await trio.sleep(backoff_s)
            remaining = "what is not known"
            with trio.move_on_after(config.controller_socket_timeout_ms / 1000):
                try:
                    remaining = await self._ask()
                except (ApiError, ConnectionFailedError) as error:
                    remaining = f"what is not known: {error}"
            if not remaining:
                logger.info("every leader has moved to another broker")
                return True
            logger.info("before leaving, this broker still leads %s", remaining)
        logger.warning("leaving although not every leader has moved")
        return False

    async def _ask(self) -> str:
        """Ask once; return the partitions still led here, as text.

        Raises:
            ApiError: the controller refuses.
            ConnectionFailedError: the controller cannot be reached.
        """
        broker = self._broker
        if broker.controller.is_active:
            left = await broker.controller.controlled_shutdown(broker.broker_id, broker.broker_epoch)
            return ", ".join(map(str, left))
        channel = self._open_channel(await self._controller())
        try:
            request = ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
            response: ControlledShutdownResponse = await channel.request(request, _VERSION)
        finally:
            channel.close()
        if response.error_code:
            raise ApiError(Error.from_code(response.error_code))
        return ", ".join(
            f"{left.topic_name}-{left.partition_index}" for left in response.remaining_partitions
        )

    async def _controller(self) -> "Node":
        """Wait until another broker is known as the controller, and return its address.

        Raises:
            ApiError: none is known within the back-off.
        """
        metadata = self._broker.metadata
        with trio.move_on_after(self._broker.config.controlled_shutdown_retry_backoff_ms / 1000):
            while True:
                controller_id = metadata.snapshot.controller_id
                if controller_id is not None and controller_id != self._broker.broker_id:
                    node = metadata.node(controller_id, self._listener)
                    if node is not None:
                        return node
                await metadata.wait_changed()
        raise ApiError(Error.NOT_CONTROLLER, "no controller is known")
