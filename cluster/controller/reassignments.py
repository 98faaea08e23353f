"""Partitions that move to other brokers (KIP-455), requested by API or through ``/admin/reassign_partitions``.

A move of a partition, from its origin to its target replicas:

1. The znode of the topic gets target + origin, and which of them are added and removed. That is the only durable record
   of the move, so it is written before anything is done, and cleared after everything is.
2. The leader epoch is raised, and all replicas learn of the new list; the added ones start to follow.
3. When the whole target is in sync, the leader moves into the target if it is not there, the removed replicas leave the
   ISR, are stopped and deleted, and the znode of the topic gets the target alone.

A move can be replaced while it runs, and its origin stays the origin: cancelling is a move back to it. Replicas that
only the replaced move needed are deleted at once, so a change that would delete every in-sync replica is refused (as
KRaft refuses it, and Kafka with ZooKeeper does not) unless the topic allows unclean elections. Moves are batched: one
write per topic, one request per broker.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from cluster.controller import deletions
from cluster.controller.partition_transitions import ElectionFailed
from cluster.controller.term import Term
from cluster.statemachines import replica as machine
from cluster.statemachines.leadership import PartitionAssignment
from cluster.statemachines.partition import PartitionState
from cluster.statemachines.replica import ReplicaState
from cluster.statemachines.topic_deletion import Replica
from cluster.zookeeper.client import BadVersionError, OversizedWriteError
from cluster.zookeeper.znodes import TopicAssignment
from wire.errors import ApiError, Error
from wire.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

Moves = Mapping[TopicPartition, PartitionAssignment]


async def reassign(
    term: Term, targets: Mapping[TopicPartition, Sequence[BrokerId] | None]
) -> dict[TopicPartition, ApiError | None]:
    """Begin, replace or cancel moves, as AlterPartitionReassignments asks.

    Args:
        term: The term of office.
        targets: The target of each partition; ``None`` cancels its move.

    Returns:
        The error of each, ``None`` if its move was begun.
    """
    outcomes: dict[TopicPartition, ApiError | None] = {}
    moves: dict[TopicPartition, PartitionAssignment] = {}
    for partition, target in targets.items():
        try:
            moves[partition] = _plan(term, partition, target)
        except ApiError as error:
            outcomes[partition] = error
    # The last request counts: it replaces a move that an old tool asked for.
    await _take_out_of_znode(term, moves.keys())
    return outcomes | await _begin(term, moves)


async def requested(term: Term) -> set[TopicPartition]:
    """Read ``/admin/reassign_partitions``, and begin the new moves; return their partitions."""
    asked = await term.store.read_reassignment(term.watches.reassignments)
    if asked is None:
        return set()
    context = term.context
    outcomes: dict[TopicPartition, ApiError | None] = {}
    moves: dict[TopicPartition, PartitionAssignment] = {}
    for partition, target in asked.items():
        current = context.assignment(partition)
        if partition in context.reassigning and current.target == target:
            continue
        if not target or len(set(target)) < len(target):
            outcomes[partition] = ApiError(Error.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(target)}")
        else:
            moves[partition] = current.reassign_to(target)
    outcomes |= await _begin(term, moves)
    failed = {partition for partition, error in outcomes.items() if error is not None}
    for partition in sorted(failed):
        logger.warning("partition %s is not reassigned: %s", partition, outcomes[partition])
    await _take_out_of_znode(term, failed)
    return moves.keys() - failed


async def resume_all(term: Term) -> None:
    """Go on with the moves of earlier controllers, and begin those that are requested in ZooKeeper."""
    begun = await requested(term)
    await _proceed(term, sorted(term.context.reassigning - begun))


async def resume_towards(term: Term, broker_ids: Collection[BrokerId]) -> None:
    """Go on with moves to brokers that have started."""
    context = term.context
    touched = [
        partition
        for partition in sorted(context.reassigning)
        if not set(context.assignment(partition).target).isdisjoint(broker_ids)
    ]
    await _proceed(term, touched)


async def complete_caught_up(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Complete the moves of partitions whose target is now in sync."""
    moving = sorted(term.context.reassigning.intersection(partitions))
    complete, _ = await _divide(term, moving)
    await _complete(term, complete)


def ongoing(
    term: Term, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, PartitionAssignment]:
    """Return the moves that are under way.

    Args:
        term: The term of office.
        partitions: The partitions; ``None`` for all.
    """
    context = term.context
    asked = context.reassigning if partitions is None else partitions
    assignments = {partition: context.assignment(partition) for partition in sorted(set(asked))}
    return {partition: a for partition, a in assignments.items() if a.is_being_reassigned}


def _plan(term: Term, partition: TopicPartition, target: Sequence[BrokerId] | None) -> PartitionAssignment:
    current = term.context.assignment(partition)
    if target is None:
        if not current.is_being_reassigned:
            raise ApiError(Error.NO_REASSIGNMENT_IN_PROGRESS)
        return current.reassign_to(current.origin)
    wrong = Error.INVALID_REPLICA_ASSIGNMENT
    if not target:
        raise ApiError(wrong, "Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        raise ApiError(wrong, f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if min(target) < 0:
        raise ApiError(wrong, f"Invalid broker id in replica list: {list(target)}")
    planned = current.reassign_to(target)
    dead = set(planned.adding) - term.context.live_brokers()
    if dead:
        raise ApiError(
            wrong,
            f"Replica assignment has brokers that are not alive. Replica list: {list(planned.adding)}, "
            f"live broker list: {sorted(term.context.live_brokers())}",
        )
    return planned


async def _begin(term: Term, moves: Moves) -> dict[TopicPartition, ApiError | None]:
    context = term.context
    outcomes: dict[TopicPartition, ApiError | None] = {}
    begun: dict[TopicPartition, PartitionAssignment] = {}
    for partition, planned in moves.items():
        if partition.topic in context.deletion_queued or not context.assignment(partition).replicas:
            outcomes[partition] = ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        else:
            outcomes[partition] = None
            begun[partition] = planned
    losing, refused = await _losing_all_in_sync(term, begun)
    for partition in refused:
        outcomes[partition] = ApiError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"No replica of {list(begun[partition].replicas)} is in sync: the change would delete the only replicas "
            "with all records. Wait until one of them is back and in sync.",
        )
        del begun[partition]
    before = {partition: context.assignment(partition) for partition in begun}
    changed = {partition: planned for partition, planned in begun.items() if planned != before[partition]}
    for partition, error in (await _store(term, changed)).items():
        outcomes[partition] = ApiError(Error.INVALID_REQUEST, str(error))
        del begun[partition]
    unneeded = []
    for partition, planned in begun.items():
        context.assign(partition, planned)
        context.reassigning.add(partition)
        unneeded += [
            Replica(partition, replica)
            for replica in before[partition].replicas
            if replica not in planned.replicas
        ]
    await _remove_replicas(term, unneeded, even_last_of=losing)
    await _proceed(term, list(begun))
    return outcomes


async def _losing_all_in_sync(term: Term, moves: Moves) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """Find the moves that would delete every in-sync replica: first those whose topic allows that, then the others."""
    context = term.context
    deleting = [
        partition
        for partition, planned in moves.items()
        if not set(context.assignment(partition).replicas).issubset(planned.replicas)
    ]
    if not deleting:
        return set(), set()
    states = await term.store.read_partition_states(deleting)
    losing = {
        partition
        for partition, state in states.items()
        if set(state.isr).isdisjoint(moves[partition].replicas)
    }
    unclean = await term.partitions.topics_that_allow_unclean({partition.topic for partition in losing})
    allowed = {partition for partition in losing if partition.topic in unclean}
    return allowed, losing - allowed


async def _store(term: Term, moves: Moves) -> dict[TopicPartition, OversizedWriteError]:
    """Write assignments, one write per topic; the other partitions in its znode stay as they are.

    Returns:
        The partitions that were not written, because their topic's znode would become too large.
    """
    unwritten: dict[TopicPartition, OversizedWriteError] = {}
    by_topic: dict[str, dict[int, PartitionAssignment]] = {}
    for partition, assignment in moves.items():
        by_topic.setdefault(partition.topic, {})[partition.partition] = assignment
    for topic, changed in by_topic.items():
        while True:
            found = await term.store.read_topic(topic)
            if found is None:
                logger.warning("topic %s is gone, its assignment is not written", topic)
                break
            stored, version = found
            merged = TopicAssignment(stored.topic_id, {**stored.partitions, **changed})
            try:
                await term.store.set_topic_assignment(topic, merged, version)
            except BadVersionError:
                continue
            except OversizedWriteError as error:
                unwritten |= {TopicPartition(topic, partition): error for partition in changed}
            break
    return unwritten


async def _proceed(term: Term, partitions: Sequence[TopicPartition]) -> None:
    """Complete the moves that can be completed, and start the new replicas of the others."""
    deletions.halt(term, {partition.topic for partition in partitions}, "a reassignment is under way")
    complete, waiting = await _divide(term, partitions)
    await _start_adding(term, waiting)
    await _complete(term, complete)


async def _divide(
    term: Term, partitions: Sequence[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions whose target is in sync and has a live replica to lead it, and the others."""
    if not partitions:
        return [], []
    context = term.context
    states = await term.store.read_partition_states(partitions)
    complete, waiting = [], []
    for partition in partitions:
        assignment, leadership = context.assignment(partition), states.get(partition)
        in_sync = leadership is not None and set(assignment.target).issubset(leadership.isr)
        served = any(context.is_online(partition, replica) for replica in assignment.target)
        if not assignment.is_being_reassigned or (in_sync and served):
            complete.append(partition)
        else:
            waiting.append(partition)
    return complete, waiting


async def _start_adding(term: Term, partitions: Sequence[TopicPartition]) -> None:
    context = term.context
    added = []
    for partition, outcome in (await term.partitions.bump_epochs(partitions)).items():
        if isinstance(outcome, ElectionFailed):
            continue
        assignment = context.assignment(partition)
        # An added replica may go to any directory; an old one whose directory failed must not be created again.
        term.batch.tell_role(assignment.origin, partition, outcome, assignment, is_new=False)
        term.batch.tell_role(assignment.adding, partition, outcome, assignment, is_new=True)
        added += [Replica(partition, replica) for replica in assignment.adding]
    unknown = [replica for replica in added if context.replica_state(replica) is ReplicaState.NON_EXISTENT]
    await term.replicas.apply(unknown, machine.ReplicaAssigned())


async def _complete(term: Term, partitions: Sequence[TopicPartition]) -> None:
    if not partitions:
        return
    context = term.context
    moves = {partition: context.assignment(partition) for partition in partitions}
    await term.replicas.apply(
        [Replica(tp, replica) for tp, move in moves.items() for replica in move.adding],
        machine.ReplicaAvailable(),
    )
    for partition, move in moves.items():
        # From here on LeaderAndIsr leaves out the removed replicas, so that leaders do not add them again.
        context.assign(partition, PartitionAssignment(move.target))
    unsettled = await _settle_leaders(term, partitions)
    for partition in unsettled:
        if moves[partition].is_being_reassigned:
            # The ISR has shrunk since we read it: the removed replicas may be the only ones with all records.
            logger.warning("partition %s: its target has no leader yet, the move goes on", partition)
            context.assign(partition, moves.pop(partition))
    await _remove_replicas(
        term, [Replica(tp, replica) for tp, move in moves.items() for replica in move.removing]
    )
    await _store(term, {tp: PartitionAssignment(move.target) for tp, move in moves.items()})
    await _take_out_of_znode(term, moves)
    context.reassigning.difference_update(moves)
    term.batch.update_metadata(moves)
    await term.batch.flush()
    await _elect_after_cancelling(term, unsettled & moves.keys())
    await deletions.unhalt(
        term,
        {tp.topic for tp in moves} - {tp.topic for tp in context.reassigning},
    )


async def _elect_after_cancelling(term: Term, partitions: Collection[TopicPartition]) -> None:
    """Elect leaders for cancelled moves whose leader was removed and whose origin has no in-sync replica."""
    leaderless = sorted(tp for tp in partitions if not term.context.leaderships[tp].has_leader)
    term.partitions.lose_leaders(
        tp for tp in leaderless if term.context.partition_state(tp) is PartitionState.ONLINE
    )
    await term.partitions.bring_online(leaderless)


async def _settle_leaders(term: Term, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
    """Move leaders that are dead or not in the target; the others learn of the new list.

    Returns:
        The partitions where that failed; they keep their earlier leadership.
    """
    context = term.context
    staying: list[TopicPartition] = []
    moving: list[TopicPartition] = []
    for partition in partitions:
        leadership = context.leaderships.get(partition)
        if leadership is None:
            continue
        leads_on = leadership.leader in context.assignment(partition).replicas and context.is_online(
            partition, leadership.leader
        )
        (staying if leads_on else moving).append(partition)
    outcomes = await term.partitions.bump_epochs(staying)
    for partition, outcome in outcomes.items():
        if not isinstance(outcome, ElectionFailed):
            assignment = context.assignment(partition)
            term.batch.tell_role(assignment.replicas, partition, outcome, assignment, is_new=False)
    await term.batch.flush()
    outcomes |= await term.partitions.elect_reassigned(moving)
    return {partition for partition, outcome in outcomes.items() if isinstance(outcome, ElectionFailed)}


async def _remove_replicas(
    term: Term, replicas: Sequence[Replica], *, even_last_of: Collection[TopicPartition] = ()
) -> None:
    """Stop and delete replicas without waiting for the responses: a dead broker must not hold up a move.

    A replica that could not leave the ISR, because it is the only member, is stopped and keeps its data.

    Args:
        term: The term of office.
        replicas: The replicas that their partitions no longer need.
        even_last_of: Partitions whose only in-sync replicas may be deleted.
    """
    if not replicas:
        return
    context = term.context
    await term.replicas.apply(replicas, machine.ReplicaUnavailable())
    deletable = []
    for partition, broker_id in replicas:
        leadership = context.leaderships.get(partition)
        if leadership is None or broker_id not in leadership.isr or partition in even_last_of:
            deletable.append(Replica(partition, broker_id))
        else:
            logger.error(
                "partition %s: replica %d keeps its data, as it alone is in sync; reassign the partition to it",
                partition,
                broker_id,
            )
    for event in (
        machine.DeletionRequested(),
        machine.DeletionConfirmed(),
        machine.ReplicaForgotten(),
    ):
        await term.replicas.apply(deletable, event)


async def _take_out_of_znode(term: Term, partitions: Collection[TopicPartition]) -> None:
    """Remove moves from ``/admin/reassign_partitions``: tools wait until they are gone from it."""
    if not partitions:
        return
    asked = await term.store.read_reassignment(term.watches.reassignments)
    if asked is None or asked.keys().isdisjoint(partitions):
        return
    await term.store.write_reassignment(
        {partition: target for partition, target in asked.items() if partition not in partitions}
    )
