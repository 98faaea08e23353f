"""Producer ids: each broker takes them from ZooKeeper a thousand at a time and hands them out one by one."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from cluster.zookeeper.client import ZooKeeperError
from cluster.zookeeper.producer_ids import ProducerIdsExhaustedError
from wire.errors import Error
from wire.types import ProducerId

if TYPE_CHECKING:
    from cluster.zookeeper.znodes import ProducerIdBlock

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 5.0
"""How long a request may wait for a block: a client that asks again is served sooner than one that times out."""


class ProducerIds:
    """Hands out ids that no other producer has.

    Args:
        take_block: Takes the next block, which no other broker gets.
    """

    def __init__(self, take_block: "Callable[[], Awaitable[ProducerIdBlock]]") -> None:
        self._take_block = take_block
        self._next = 0
        self._last = -1
        self._taking = trio.Lock()

    async def next(self) -> ProducerId:
        """Return an id. Cancellation while a block is taken loses at most that block.

        Raises:
            ZooKeeperError: a block is needed and ZooKeeper does not give one.
            ProducerIdsExhaustedError: every id has been handed out.
        """
        while self._next > self._last:
            async with self._taking:
                if self._next > self._last:  # another task may have taken a block meanwhile
                    block = await self._take_block()
                    self._next, self._last = block.first, block.last
                    logger.info("handing out the producer ids %d to %d", block.first, block.last)
        producer_id = self._next
        self._next += 1
        return ProducerId(producer_id)

    async def take(self) -> ProducerId | Error:
        """Return an id, or the error for a client where none is to be had in time.

        Not COORDINATOR_NOT_AVAILABLE: a producer without a transactional id has no coordinator to look for.
        """
        try:
            with trio.move_on_after(_PATIENCE_S):
                return await self.next()
        except ZooKeeperError as failure:
            logger.warning("cannot take a block of producer ids: %s", failure)
        except ProducerIdsExhaustedError:
            return Error.UNKNOWN_SERVER_ERROR
        return Error.COORDINATOR_LOAD_IN_PROGRESS
