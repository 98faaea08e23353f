"""The replicas of a broker that move between its log directories (KIP-113).

A move is requested by AlterReplicaLogDirs, and found in the directories after a restart. A request for another
directory replaces it, one for the replica's own directory cancels it. ``num.replica.alter.log.dirs.threads`` is how
many run at a time, in the order of their requests.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from cluster.replication.moves.replica_move import ReplicaMove
from cluster.replication.partition.partition import Partition
from cluster.replication.roles.hosted_partitions import HostedPartitions
from cluster.replication.throttle import Throttle
from storage import names
from storage.errors import LogError, StorageError
from wire.errors import Error
from wire.types import TopicPartition

if TYPE_CHECKING:
    from storage.log_directory import LogDirectory
    from storage.store import LogStore
    from timing.clock import Clock

logger = logging.getLogger(__name__)

_NAME_LIMIT: Final = 255


class ReplicaMoves:
    """Starts and stops moves.

    Args:
        hosted: The partitions.
        store: The logs.
        clock: Wall time, for retention in the copies.
        offload: Runs reads and syncs off the loop.
        control: Creates and removes logs off the loop.
        throttle: Limits all moves together.
        chunk_bytes: How many bytes are copied at a time.
        on_promoted: Called with a partition just after its log was replaced.
        limit: How many moves run at a time.

    Attributes:
        chunk_bytes: As given.
        control: As given.
        offload: As given.
        on_promoted: As given.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        store: "LogStore",
        clock: "Clock",
        offload: Callable[[Callable[[], object]], Awaitable[object]],
        control: Callable[[Callable[[], object]], Awaitable[object]],
        throttle: Throttle,
        chunk_bytes: int,
        on_promoted: Callable[[Partition], None],
        limit: int,
    ) -> None:
        self._hosted = hosted
        self._store = store
        self._clock = clock
        self.offload = offload
        self.control = control
        self._throttle = throttle
        self.chunk_bytes = chunk_bytes
        self.on_promoted = on_promoted
        self._limiter = trio.Semaphore(limit)
        self._moves: dict[TopicPartition, ReplicaMove] = {}
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        return len(self._moves)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._moves

    async def run(self) -> None:
        """Run the moves until cancelled; unfinished ones continue after the next start."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                for move in tuple(self._moves.values()):
                    self._start(move)
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, Error]:
        """Move replicas to directories; `NONE` for those that are now moving or already there.

        For a replica that is not here, the directory is remembered until the replica is created. If cancelled, some
        moves have begun.
        """
        return {key: await self._alter_one(key, path) for key, path in wanted.items()}

    async def _alter_one(self, topic_partition: TopicPartition, path: str) -> Error:
        store, offload = self._store, self.control
        partition = self._hosted.get(topic_partition)
        try:
            if len(names.marked_directory(topic_partition, "0" * 32, names.FUTURE_DIRECTORY)) > _NAME_LIMIT:
                return Error.INVALID_TOPIC_EXCEPTION
            store.directory(path).check_online()
            if topic_partition in self._hosted.offline:
                return Error.KAFKA_STORAGE_ERROR
            if partition is None or partition.log is None:
                if store.get(topic_partition) is None:
                    store.prefer(topic_partition, path)
                absence = self._hosted.absence(topic_partition)
                # Kafka's clients expect this error.
                return Error.REPLICA_NOT_AVAILABLE if absence is Error.NOT_LEADER_OR_FOLLOWER else absence
            future = store.future_log(topic_partition)
            if future is not None and future.log_directory.path != path:
                self.stop(topic_partition)
                await offload(lambda: store.moves.remove(topic_partition))
                future = None
            if partition.log is not None and partition.log.log_directory.path != path:
                # An existing copy is left alone: it could replace its log while we wait for a thread.
                if future is None:
                    await offload(lambda: store.moves.create(topic_partition, path))
                self.resume(partition)
        except LogError as failure:
            logger.warning("%s is not moved to %s: %s", topic_partition, path, failure)
            return failure.kafka_error
        return Error.NONE

    def resume(self, partition: Partition) -> None:
        """Resume the move of a partition, if it has a future log and is not moving already."""
        topic_partition = partition.topic_partition
        future = self._store.future_log(topic_partition)
        known = self._moves.get(topic_partition)
        if future is None or partition.log is None or (known is not None and known.future is future):
            return
        self.stop(topic_partition)
        move = self._moves[topic_partition] = ReplicaMove(
            partition,
            future,
            self._store,
            self._clock,
            self.offload,
            self._throttle,
            self.chunk_bytes,
            self.on_promoted,
        )
        self._start(move)

    def stop(self, topic_partition: TopicPartition) -> None:
        """Stop a move; its future log stays where it is."""
        move = self._moves.pop(topic_partition, None)
        if move is not None:
            move.stop()

    def directory_failed(self, log_directory: "LogDirectory") -> None:
        """Stop the moves from and to a directory; those from it can continue after a restart, if it is usable then."""
        store = self._store
        for move in tuple(self._moves.values()):
            log = move.partition.log
            if (
                move.future.log_directory is log_directory
                or log is None
                or log.log_directory is log_directory
            ):
                self.stop(move.partition.topic_partition)
        for future in store.future_logs():
            if future.log_directory is log_directory:
                store.moves.forget(future.topic_partition)

    def _start(self, move: ReplicaMove) -> None:
        """Begin a move; if `run` has not begun yet, `run` begins it."""
        if self._nursery is not None:
            self._nursery.start_soon(self._run, move, name=f"moving {move.partition.topic_partition}")

    async def _run(self, move: ReplicaMove) -> None:
        topic_partition = move.partition.topic_partition
        try:
            async with self._limiter:
                await move.run()
        except StorageError as failure:
            logger.error("%s does not move: %s", topic_partition, failure)
        except LogError as failure:
            # Found again by the next request for it, or after a restart.
            logger.error(
                "%s cannot be copied to %s: %s", topic_partition, move.future.log_directory.path, failure
            )
        finally:
            if self._moves.get(topic_partition) is move:
                del self._moves[topic_partition]
