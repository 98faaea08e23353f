"""Flushing before acknowledging (``log.flush.on.ack``): one flush for all that was appended since the last one began.

A leader acknowledges nothing that is not on its disk, and counts for the high watermark as far as it has flushed. A
follower flushes before its next fetch, which is its acknowledgement. So what acks=all acknowledged survives the loss of
power on every replica at once.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NoReturn

import trio

from cluster.replication.partition.partition import Partition
from storage.errors import StorageError

if TYPE_CHECKING:
    from storage.log import Log
    from timing.clock import Clock

logger = logging.getLogger(__name__)


class GroupFlush:
    """Flushes partitions as fast as the disk takes it, each time everything that waits.

    Args:
        clock: Dates flushes.
        offload: Runs the flush beside the loop.
    """

    def __init__(self, clock: "Clock", offload: Callable[[Callable[[], object]], Awaitable[object]]) -> None:
        self._clock = clock
        self._offload = offload
        self._waiting: dict[Partition, None] = {}
        self._came = trio.Event()

    def submit(self, partition: Partition) -> None:
        """Have what a partition has appended flushed, and its `flushed` called."""
        self._waiting[partition] = None
        self._came.set()

    async def flush(self, logs: "Iterable[Log]") -> None:
        """Put logs on disk; one whose disk fails goes offline with its directory."""
        taken = list(logs)
        await self._offload(lambda: _flush(taken))

    async def settle(self, logs: "Iterable[Log]") -> None:
        """Make truncations of logs survive power loss; one whose disk fails goes offline with its directory."""
        taken = list(logs)
        await self._offload(lambda: _settle(taken))

    async def run(self) -> NoReturn:
        """Flush for ever. Cancelled, what waits stays unacknowledged."""
        while True:
            await self._came.wait()
            self._came = trio.Event()
            taken, self._waiting = self._waiting, {}
            await self.flush(partition.log for partition in taken if partition.log is not None)
            now = self._clock.monotonic()
            for partition in taken:
                if partition.leader is not None:
                    partition.leader.flushed(now)


def _flush(logs: "list[Log]") -> None:
    for log in logs:
        try:
            log.flush()
        except StorageError as error:
            # Never tried again: what a failed sync left in the page cache may be gone.
            logger.error("%s is not flushed: %s", log.topic_partition, error)


def _settle(logs: "list[Log]") -> None:
    for log in logs:
        try:
            log.settle()
        except StorageError as error:
            logger.error("the truncation of %s may come undone: %s", log.topic_partition, error)
