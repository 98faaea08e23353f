"""What the elected controller reads and writes in ZooKeeper: every write behind the fence of its election.

Reads that a decision rests on leave their watch in the same operation. If a lost connection leaves the outcome of a
write unknown, it is settled here, by reading back, so that a caller only ever sees done, refused, or one of the two
errors that end a controller: `ControllerMovedError` and `SessionExpiredError`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from cluster.statemachines.leadership import PartitionLeadership
from cluster.zookeeper.client import (
    ANY_VERSION,
    BadVersionError,
    ConnectionLossError,
    Create,
    Delete,
    MultiResult,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SetData,
    Watcher,
    ZooKeeper,
)
from cluster.zookeeper.election import elect
from cluster.zookeeper.fence import ControllerFence, ControllerMovedError
from cluster.zookeeper.partition_writes import (
    PartitionWrite,
    create_partition_states,
    write_partition_states,
)
from cluster.zookeeper.producer_ids import next_producer_id_block
from cluster.zookeeper.reader import ZnodeReader
from cluster.zookeeper.topic_removal import remove_topic
from cluster.zookeeper.znodes import (
    ControllerZnode,
    DeleteTopicsZnode,
    FeatureZnode,
    IsrChangeZnode,
    LogDirEventZnode,
    MalformedZnodeError,
    PreferredElectionZnode,
    ProducerIdBlock,
    ReassignPartitionsZnode,
    TopicAssignment,
    TopicZnode,
)
from wire.types import BrokerId, ControllerEpoch, TopicPartition, WallMs, ZkVersion

logger = logging.getLogger(__name__)


class ControllerStore(ZnodeReader):
    """ZooKeeper as the controller uses it: readable at any time, writable from election to resignation."""

    def __init__(self, zookeeper: ZooKeeper, broker_id: BrokerId) -> None:
        super().__init__(zookeeper)
        self.broker_id = broker_id
        self._fence: ControllerFence | None = None

    @property
    def fence(self) -> ControllerFence:
        """The fence that the election won.

        Raises:
            ControllerMovedError: we are not elected.
        """
        if self._fence is None:
            raise ControllerMovedError("this broker is not the controller")
        return self._fence

    @property
    def epoch(self) -> ControllerEpoch:
        """The controller epoch we were elected for.

        Raises:
            ControllerMovedError: we are not elected.
        """
        return self.fence.epoch

    async def elect(self, now: WallMs) -> ControllerEpoch:
        """Try to become controller: create `/controller` and raise `/controller_epoch`, both or neither.

        Args:
            now: For the timestamp in `/controller`.

        Raises:
            ControllerMovedError: another broker is controller, or was faster.
        """
        self._fence = None
        self._fence = await elect(self.zookeeper, self.broker_id, now)
        return self._fence.epoch

    def forget_election(self) -> None:
        """Drop the fence, so that nothing can be written, without touching ZooKeeper: for an expired session."""
        self._fence = None

    async def resign(self) -> None:
        """Resign the controllership: delete `/controller` if it is still ours.

        Afterwards nothing can be written. If cancelled, or without a connection, it can leave `/controller` behind, for
        the session's end to delete.
        """
        fence, self._fence = self._fence, None
        if fence is None:
            return
        try:
            await fence.write(self.zookeeper, [Delete(ControllerZnode.PATH, ANY_VERSION)])
        except (ControllerMovedError, SessionExpiredError):
            logger.info("nothing to resign from: controller epoch %d was over already", fence.epoch)
        except ConnectionLossError:
            logger.warning(
                "resigned from controller epoch %d, but ZooKeeper may not have got it", fence.epoch
            )

    async def write_partition_states(
        self, states: Sequence[tuple[TopicPartition, PartitionLeadership]]
    ) -> dict[TopicPartition, PartitionWrite]:
        """Replace partition states at the versions they were read at: see `partition_writes`."""
        return await write_partition_states(self.zookeeper, self.fence, states)

    async def create_partition_states(
        self, states: Sequence[tuple[TopicPartition, PartitionLeadership]]
    ) -> dict[TopicPartition, PartitionWrite]:
        """Create the states of new partitions, parents included: see `partition_writes`."""
        return await create_partition_states(self.zookeeper, self.fence, states)

    async def set_topic_assignment(
        self, topic: str, assignment: TopicAssignment, expected_version: ZkVersion
    ) -> ZkVersion:
        """Rewrite a topic's id and assignment; return the node's new version.

        Raises:
            BadVersionError: it was written in the meantime, for example by a tool that adds partitions: decide again.
            NoNodeError: the topic is gone.
            ControllerMovedError: another controller was elected.
        """
        path = TopicZnode.path(topic)
        data = TopicZnode.encode(assignment)
        while True:
            try:
                result = await self.fence.write(self.zookeeper, [SetData(path, data, expected_version)])
                result.raise_failure()
                return result.stat(0).version
            except ConnectionLossError:
                stored, stat = await self.zookeeper.get(path)
                if stat.version == expected_version + 1 and stored == data:
                    return stat.version
                if stat.version != expected_version:
                    raise BadVersionError(f"{path} was written meanwhile") from None

    async def delete_topic(self, topic: str) -> None:
        """Delete all that ZooKeeper has of a topic; the mark for its deletion goes with the last write.

        If it is interrupted at any point, the next controller can call it again.

        Raises:
            ControllerMovedError: another controller was elected.
        """
        await remove_topic(self.zookeeper, self.fence, topic)

    async def read_topic_deletions(self, watch: Watcher | None = None) -> list[str]:
        """Return the topics that are marked for deletion, and watch for more."""
        return await self.read_children(DeleteTopicsZnode.PATH, watch)

    async def delete_topic_deletions(self, topics: Iterable[str]) -> None:
        """Remove the marks of topics that do not exist, or whose deletion is disabled."""
        await self._delete_all([DeleteTopicsZnode.path(topic) for topic in topics])

    async def read_isr_changes(
        self, watch: Watcher | None = None
    ) -> tuple[list[str], frozenset[TopicPartition]]:
        """Read which partitions' ISRs were written, with the notifications' names; watch for more."""
        names = await self.read_children(IsrChangeZnode.PARENT, watch)
        partitions: set[TopicPartition] = set()
        for data in await self._read_data([IsrChangeZnode.path(name) for name in names]):
            try:
                partitions |= IsrChangeZnode.decode(data)
            except MalformedZnodeError:
                logger.exception("an ISR change notification is dropped")
        return names, frozenset(partitions)

    async def delete_isr_changes(self, names: Iterable[str]) -> None:
        """Delete the notifications that were dealt with."""
        await self._delete_all([IsrChangeZnode.path(name) for name in names])

    async def read_log_dir_events(
        self, watch: Watcher | None = None
    ) -> tuple[list[str], frozenset[BrokerId]]:
        """Read which brokers lost a log directory, with the notifications' names, and watch for more."""
        names = await self.read_children(LogDirEventZnode.PARENT, watch)
        brokers: set[BrokerId] = set()
        for data in await self._read_data([LogDirEventZnode.path(name) for name in names]):
            try:
                brokers.add(LogDirEventZnode.decode(data))
            except MalformedZnodeError:
                logger.exception("a log directory event is dropped")
        return names, frozenset(brokers)

    async def delete_log_dir_events(self, names: Iterable[str]) -> None:
        """Delete the notifications that were dealt with."""
        await self._delete_all([LogDirEventZnode.path(name) for name in names])

    async def read_reassignment(
        self, watch: Watcher | None = None
    ) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        """Read the moves that an old tool requested, and watch for them; ``None`` if there is no node."""
        found = await self.read_node(ReassignPartitionsZnode.PATH, watch)
        if found is None:
            return None
        try:
            return ReassignPartitionsZnode.decode(found[0])
        except MalformedZnodeError:
            logger.exception("the reassignment is ignored")
            return {}

    async def write_reassignment(self, moves: Mapping[TopicPartition, Iterable[BrokerId]]) -> None:
        """Leave in the node only the moves that still run; if there are none, delete it.

        Raises:
            ControllerMovedError: another controller was elected.
        """
        path = ReassignPartitionsZnode.PATH
        if not moves:
            await self._delete_all([path])
            return
        data = ReassignPartitionsZnode.encode(moves)
        result = await self._write_idempotent([SetData(path, data, ANY_VERSION)])
        if isinstance(result.failure and result.failure[1], NoNodeError):
            result = await self._write_idempotent([Create(path, data)])
            if isinstance(result.failure and result.failure[1], NodeExistsError):
                result = await self._write_idempotent([SetData(path, data, ANY_VERSION)])
        result.raise_failure()

    async def read_preferred_election(self, watch: Watcher | None = None) -> frozenset[TopicPartition] | None:
        """Read the elections that an old tool requested, and watch for them; ``None`` if there is no node."""
        found = await self.read_node(PreferredElectionZnode.PATH, watch)
        if found is None:
            return None
        try:
            return PreferredElectionZnode.decode(found[0])
        except MalformedZnodeError:
            logger.exception("the preferred election is ignored")
            return frozenset()

    async def delete_preferred_election(self) -> None:
        """Delete the request for elections, done or not."""
        await self._delete_all([PreferredElectionZnode.PATH])

    async def ensure_features(self) -> None:
        """Create `/feature` without finalized features, unless it exists.

        Raises:
            ControllerMovedError: another controller was elected.
        """
        if await self.zookeeper.exists(FeatureZnode.PATH) is None:
            await self._write_idempotent([Create(FeatureZnode.PATH, FeatureZnode.encode({}))])

    async def next_producer_id_block(self, broker_id: BrokerId) -> ProducerIdBlock:
        """Take a block of producer ids for a broker that asked the controller for one: see `producer_ids`."""
        return await next_producer_id_block(self.zookeeper, broker_id)

    async def _read_data(self, paths: Sequence[str]) -> list[bytes]:
        return [node[0] for node in await self.zookeeper.get_many(paths) if node is not None]

    async def _delete_all(self, paths: Sequence[str]) -> None:
        """Delete nodes behind the fence, those that exist."""
        pending = list(paths)
        while pending:
            results = await self.fence.write_many(
                self.zookeeper, [[Delete(path, ANY_VERSION)] for path in pending]
            )
            again = []
            for path, result in zip(pending, results, strict=True):
                if isinstance(result, ConnectionLossError):
                    again.append(path)
                elif result.failure is not None and not isinstance(result.failure[1], NoNodeError):
                    raise result.failure[1]
            pending = again

    async def _write_idempotent(self, operations: Sequence[Operation]) -> MultiResult:
        """Repeat an idempotent write until ZooKeeper answers."""
        while True:
            try:
                return await self.fence.write(self.zookeeper, operations)
            except ConnectionLossError:
                continue
