"""Flushing before acknowledging (``log.flush.on.ack``): one flush for all appends since the last one began.

A leader acknowledges nothing that is not on its disk, and counts towards the high watermark only as far as it has
flushed. A follower flushes before its next fetch, which is its acknowledgement. So records acknowledged with acks=all
survive a simultaneous loss of power on all replicas.
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
    """Flushes partitions as fast as the disk allows, each time all that wait.

    Args:
        clock: Timestamps flushes.
        offload: Runs the flush off the loop.
    """

    def __init__(self, clock: "Clock", offload: Callable[[Callable[[], object]], Awaitable[object]]) -> None:
        self._clock = clock
        self._offload = offload
        self._waiting: dict[Partition, None] = {}
        self._came = trio.Event()

    def submit(self, partition: Partition) -> None:
        """Have a partition's appends flushed, and its `flushed` called."""
        self._waiting[partition] = None
        self._came.set()

    async def flush(self, logs: "Iterable[Log]") -> None:
        """Flush logs; one whose disk fails goes offline with its directory."""
        taken = list(logs)
        await self._offload(lambda: _flush(taken))

    async def settle(self, logs: "Iterable[Log]") -> None:
        """Sync truncations of logs to disk; one whose disk fails goes offline with its directory."""
        taken = list(logs)
        await self._offload(lambda: _settle(taken))

    async def run(self) -> NoReturn:
        """Flush until cancelled; appends that still wait then stay unacknowledged."""
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
            # Never retried: after a failed sync the page cache may have dropped the data.
            logger.error("%s is not flushed: %s", log.topic_partition, error)


def _settle(logs: "list[Log]") -> None:
    for log in logs:
        try:
            log.settle()
        except StorageError as error:
            logger.error("the truncation of %s may come undone: %s", log.topic_partition, error)
