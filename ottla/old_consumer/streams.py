"""Streams: what a user of the old consumer reads."""

import logging
import math
from collections.abc import Iterator
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import trio

from ottla.client import NoLeader, UnknownTopic
from ottla.client.record_batch import Batch, Record
from wire.types import TopicPartition

_log = logging.getLogger(__name__)
_LIVENESS_POLL_S: Final = 0.1

K = TypeVar("K", covariant=True)
V = TypeVar("V", covariant=True)


class ConsumerTimeout(Exception):
    """No record came within ``consumer.timeout.ms``; the stream can be read on."""


class Source(Protocol):
    """What a stream gets its records from while its consumer owns partitions."""

    positions: dict[TopicPartition, int]
    """The next offset to hand out, by partition: what is committed."""

    def may_hand_out(self) -> bool:
        """Return whether the consumer surely owns its partitions now."""
        ...

    async def take(self, stream: "Stream[Any, Any]") -> Batch[Any, Any] | None:
        """Return the next batch for a stream, None where none waits."""
        ...


class Stream(Generic[K, V]):
    """Records of some partitions, which a rebalance may change; used as ``async for record in stream``.

    A record counts as consumed as soon as it is handed out. The loop ends when the consumer leaves its group. Each
    batch of records begins with a checkpoint; cancelled there, nothing is lost.

    Args:
        name: Its thread's name, for texts.
        timeout: After how many seconds without a record `ConsumerTimeout` is raised; None for never.
    """

    def __init__(self, name: str, timeout: float | None) -> None:
        self.name = name
        self._timeout = timeout
        self._source: Source | None = None
        self._batch: Batch[Any, Any] | None = None
        self._records: Iterator[Record[Any, Any]] = iter(())
        self._failure: Exception | None = None
        self._is_closed = False
        self._arrived = trio.Event()

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        """Return the next record.

        Raises:
            ConsumerTimeout: None came in time.
            RebalanceFailed: The consumer could not claim its partitions; asked again, the stream goes on waiting.
            ClientError: A partition cannot be read; asked again, it is tried again.
        """
        record = self._next_of_batch()
        if record is not None:
            return record
        await trio.lowlevel.checkpoint()
        deadline = math.inf if self._timeout is None else trio.current_time() + self._timeout
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._is_closed:
                raise StopAsyncIteration
            if await self._take_batch():
                record = self._next_of_batch()
                if record is not None:
                    return record
                continue
            await self._wait(deadline)

    def _next_of_batch(self) -> Record[K, V] | None:
        source, batch = self._source, self._batch
        if source is None or batch is None or not source.may_hand_out():
            return None
        for record in self._records:
            source.positions[batch.place] = record.offset + 1
            return record
        source.positions[batch.place] = max(batch.next_offset, source.positions[batch.place])
        self._batch = None
        return None

    async def _take_batch(self) -> bool:
        """Make sure that there is a batch to hand records out of; return whether there is one."""
        source = self._source
        if source is None or not source.may_hand_out():
            return False
        if self._batch is not None:
            return True
        try:
            batch = await source.take(self)
        except (NoLeader, UnknownTopic) as error:
            # A leader is found soon; if the topic was deleted, the next rebalance takes its partitions away.
            _log.warning("stream %s: %s", self.name, error)
            return False
        if batch is None or source is not self._source:
            return False
        self._batch, self._records = batch, iter(batch)
        return True

    async def _wait(self, deadline: float) -> None:
        self._arrived = trio.Event()
        waits_for_session = self._source is not None and not self._source.may_hand_out()
        now = trio.current_time()
        with trio.move_on_at(min(deadline, now + _LIVENESS_POLL_S if waits_for_session else math.inf)):
            await self._arrived.wait()
            return
        if trio.current_time() >= deadline:
            raise ConsumerTimeout(f"stream {self.name}: no record in {self._timeout} s")

    # What the consumer does with it

    def wake(self) -> None:
        """Let a task that waits in the stream look again."""
        self._arrived.set()

    def attach(self, source: Source) -> None:
        """Read from a source."""
        self._source = source
        self.wake()

    def detach(self) -> None:
        """Forget what was fetched and not handed out: another consumer may have it from now on."""
        self._source = self._batch = None
        self._records = iter(())

    def fail(self, error: Exception) -> None:
        """Raise an error from the next call."""
        self._failure = error
        self.wake()

    def close(self) -> None:
        """End the stream."""
        self.detach()
        self._is_closed = True
        self.wake()
