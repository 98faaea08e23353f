"""Replicas that start, stop and go: the replica machine with ZooKeeper and the brokers around it.

``apply`` carries out the effects of the machine in their order: the ISRs are written first, in batches, and only then
is anything sent.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import trio

from cluster.controller.context import ControllerContext
from cluster.controller.partition_transitions import MAX_ROUNDS
from cluster.controller.request_batch import PARTITIONS_PER_TURN, RequestBatch
from cluster.statemachines import replica as machine
from cluster.statemachines.elections import leave_isr
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.statemachines.replica import ReplicaState
from cluster.statemachines.topic_deletion import Replica
from cluster.zookeeper.client import BadVersionError, ZooKeeperError
from cluster.zookeeper.controller_store import ControllerStore
from wire.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

_Leaving = dict[TopicPartition, list[BrokerId]]
_EVENTS_THAT_MAY_COME_ANYTIME: Final = (
    machine.ReplicaAvailable,
    machine.ReplicaUnavailable,
    machine.DeletionFailed,
    machine.DeletionConfirmed,
)
"""Events of brokers that come, go and answer at any time: that one does not apply to a replica is no error."""


class ReplicaTransitions:
    """Applies events of the replica machine to many replicas at once."""

    def __init__(self, context: ControllerContext, store: ControllerStore, batch: RequestBatch) -> None:
        self._context = context
        self._store = store
        self._batch = batch

    async def apply(self, replicas: Iterable[Replica], event: machine.ReplicaEvent) -> None:
        """Apply an event to all replicas for which it is legal, carry out its effects, and tell the brokers."""
        moved: list[tuple[Replica, ReplicaState]] = []
        leaving: _Leaving = {}
        roles: dict[tuple[TopicPartition, bool], list[BrokerId]] = {}
        for index, replica in enumerate(replicas):
            if index % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            state = self._context.replica_state(replica)
            if not machine.allows(state, type(event)):
                if not isinstance(event, _EVENTS_THAT_MAY_COME_ANYTIME):
                    logger.warning("replica %s stays %s: %s", replica, state.value, type(event).__name__)
                continue
            after, effects = machine.step(state, event)
            moved.append((replica, after))
            for effect in effects:
                self._gather(replica, effect, leaving, roles)
        for index, ((partition, is_new), brokers) in enumerate(roles.items()):
            if index % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            self._tell_role(partition, brokers, is_new=is_new)
        unwritten = await self._leave_isrs(leaving)
        for replica, after in moved:
            if replica.partition not in unwritten:
                self._context.put_replica_state(replica, after)
        await self._batch.flush()

    def _gather(
        self,
        replica: Replica,
        effect: machine.ReplicaEffect,
        leaving: _Leaving,
        roles: dict[tuple[TopicPartition, bool], list[BrokerId]],
    ) -> None:
        partition, broker_id = replica
        match effect:
            case machine.TellRole(is_new):
                roles.setdefault((partition, is_new), []).append(broker_id)
            case machine.LeaveIsr():
                # A partition that is being deleted keeps its state: that is deleted with the topic.
                if partition.topic not in self._context.deletion_queued:
                    leaving.setdefault(partition, []).append(broker_id)
            case machine.StopReplica(delete):
                self._batch.stop_replica(broker_id, partition, delete=delete)
            case machine.LeaveAssignment():
                self._context.assign(partition, _without(self._context.assignment(partition), broker_id))
            case _:
                assert_never(effect)

    def _tell_role(self, partition: TopicPartition, brokers: Iterable[BrokerId], *, is_new: bool) -> None:
        leadership = self._context.leaderships.get(partition)
        if leadership is None:
            # A new partition: its replicas learn of it with the election of its first leader.
            return
        assignment = self._context.assignment(partition)
        self._batch.tell_role(brokers, partition, leadership, assignment, is_new=is_new)

    async def _leave_isrs(self, leaving: _Leaving) -> set[TopicPartition]:
        """Write states without the replicas that leave the ISR; return the partitions where that failed."""
        unwritten: set[TopicPartition] = set()
        remaining = []
        for partition in leaving:
            if partition in self._context.leaderships:
                remaining.append(partition)
            else:
                self._batch.update_metadata((partition,))
        rounds = 0
        while remaining:
            rounds += 1
            if rounds > MAX_ROUNDS:
                logger.error("in-sync replicas of %s are written all the time", remaining)
                return unwritten.union(remaining)
            remaining = await self._leave_isrs_once(remaining, leaving, unwritten)
        return unwritten

    async def _leave_isrs_once(
        self, partitions: list[TopicPartition], leaving: _Leaving, unwritten: set[TopicPartition]
    ) -> list[TopicPartition]:
        """Read, decide and write once; return the partitions that another writer changed meanwhile."""
        context = self._context
        states = await self._store.read_partition_states(partitions)
        decisions: dict[TopicPartition, PartitionLeadership] = {}
        for partition in partitions:
            leadership = states.get(partition)
            if leadership is None or leadership.controller_epoch > context.epoch:
                logger.error("partition %s: state %s is not this controller's", partition, leadership)
                unwritten.add(partition)
                continue
            decision = leave_isr(leadership, leaving[partition], context.epoch)
            if decision is None:
                context.leaderships[partition] = leadership
                self._batch.update_metadata((partition,))
            else:
                decisions[partition] = decision
        if not decisions:
            return []
        stale = []
        for partition, result in (await self._store.write_partition_states(list(decisions.items()))).items():
            if isinstance(result, BadVersionError):
                stale.append(partition)
            elif isinstance(result, ZooKeeperError):
                logger.error("partition %s: its in-sync replicas were not written: %s", partition, result)
                unwritten.add(partition)
            else:
                context.leaderships[partition] = result
                self._tell_remaining(partition, result, leaving)
        return stale

    def _tell_remaining(
        self,
        partition: TopicPartition,
        leadership: PartitionLeadership,
        leaving: Mapping[TopicPartition, list[BrokerId]],
    ) -> None:
        assignment = self._context.assignment(partition)
        remaining = [replica for replica in assignment.replicas if replica not in leaving[partition]]
        self._batch.tell_role(remaining, partition, leadership, assignment, is_new=False)


def _without(assignment: PartitionAssignment, broker_id: BrokerId) -> PartitionAssignment:
    def others(brokers: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in brokers if broker != broker_id)

    return PartitionAssignment(
        others(assignment.replicas), others(assignment.adding), others(assignment.removing)
    )
