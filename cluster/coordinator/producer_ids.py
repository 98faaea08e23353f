"""Producer ids: each broker takes them from ZooKeeper a thousand at a time and hands them out one by one.

The next block is asked for when nine tenths of one are handed out, so that no producer waits for ZooKeeper while it is
available.
"""

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
"""How long a request may wait for a block: a client that retries is served sooner than one that times out."""
_AHEAD_DIVISOR: Final = 10
"""The next block is taken when this fraction of the ids, one in ten, is left."""


class ProducerIds:
    """Hands out ids that no other producer has.

    Args:
        take_block: Takes the next block, which no other broker gets.
        nursery: Where blocks are taken in advance; ends with the broker.
    """

    def __init__(self, take_block: "Callable[[], Awaitable[ProducerIdBlock]]", nursery: trio.Nursery) -> None:
        self._take_block = take_block
        self._nursery = nursery
        self._next = 0
        self._last = -1
        self._ahead_from = 0
        self._ahead: ProducerIdBlock | None = None
        self._is_taking_ahead = False
        self._taking = trio.Lock()

    async def next(self) -> ProducerId:
        """Return an id. Cancellation while a block is taken loses at most that block.

        Raises:
            ZooKeeperError: a block is needed and cannot be taken from ZooKeeper.
            ProducerIdsExhaustedError: every id has been handed out.
        """
        while self._next > self._last:
            if self._ahead is not None:
                self._begin(self._ahead)
                break
            async with self._taking:
                # Another task may have taken a block meanwhile.
                if self._next > self._last and self._ahead is None:
                    self._begin(await self._take_block())
        producer_id = self._next
        self._next += 1
        if producer_id >= self._ahead_from and self._ahead is None and not self._is_taking_ahead:
            self._is_taking_ahead = True
            self._nursery.start_soon(self._take_ahead, name="next block of producer ids")
        return ProducerId(producer_id)

    async def take(self) -> ProducerId | Error:
        """Return an id, or the error for a client if none is available in time.

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

    def _begin(self, block: "ProducerIdBlock") -> None:
        self._next, self._last, self._ahead = block.first, block.last, None
        self._ahead_from = block.last - (block.last - block.first + 1) // _AHEAD_DIVISOR
        logger.info("handing out the producer ids %d to %d", block.first, block.last)

    async def _take_ahead(self) -> None:
        """Take the next block while there are ids left; if that fails, the next request tries again."""
        try:
            async with self._taking:
                if self._ahead is None:
                    self._ahead = await self._take_block()
        except (ZooKeeperError, ProducerIdsExhaustedError) as failure:
            logger.info("cannot take a block of producer ids ahead: %s", failure)
        finally:
            self._is_taking_ahead = False
