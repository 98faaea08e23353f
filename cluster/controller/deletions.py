"""Topics that are being deleted: rounds, answers, and what halts and resumes them.

The rules are in ``cluster.statemachines.topic_deletion``; here they meet ZooKeeper and the brokers.
``resume`` is called after every event that may let a deletion go on, and does whatever can be done now.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from cluster.controller.term import Term
from cluster.controller.topic_changes import topics_changed
from cluster.statemachines import replica as machine
from cluster.statemachines.replica import ReplicaState
from cluster.statemachines.topic_deletion import DeletionStep, Replica, next_steps, plan_round
from wire.errors import Error
from wire.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

FINISHED_AT_ONCE: Final = 10
"""Topics whose znodes are removed within one event: each takes some round trips, and a dead broker waits meanwhile."""


async def deletions_changed(term: Term) -> None:
    """Read which topics are marked for deletion, and queue the new ones."""
    context, store = term.context, term.store
    marked = set(await store.read_topic_deletions(term.watches.topic_deletions))
    if marked - context.topics.keys():
        # The topic may be newer than what we have read: do not take its mark for that of a topic long gone.
        await topics_changed(term)
    unknown = marked - context.topics.keys()
    if unknown:
        logger.warning("topics %s are marked for deletion but do not exist", sorted(unknown))
        await store.delete_topic_deletions(sorted(unknown))
    await _queue(term, marked - unknown)


async def load(term: Term) -> None:
    """Queue the deletions that an earlier controller did not finish; none is begun yet."""
    context = term.context
    marked = set(await term.store.read_topic_deletions(term.watches.topic_deletions)) & context.topics.keys()
    if not term.settings.delete_topic_enable:
        return
    context.deletion_queued |= marked
    halt(
        term,
        {
            replica.partition.topic
            for topic in marked
            for replica in context.replicas_of(topic)
            if not context.is_online(*replica)
        },
        "a replica is dead",
    )
    halt(term, {partition.topic for partition in context.reassigning}, "a reassignment is under way")


async def _queue(term: Term, topics: Collection[str]) -> None:
    context = term.context
    if not topics:
        return
    if not term.settings.delete_topic_enable:
        logger.warning("topics %s are not deleted: delete.topic.enable is false", sorted(topics))
        await term.store.delete_topic_deletions(sorted(topics))
        return
    context.deletion_queued.update(topics)
    moving = {partition.topic for partition in context.reassigning}
    halt(term, moving.intersection(topics), "a reassignment is under way")
    await resume(term)


def halt(term: Term, topics: Collection[str], reason: str) -> None:
    """Halt the deletion of some topics: those that are queued begin no further rounds."""
    halted = term.context.deletion_queued.intersection(topics)
    if halted:
        logger.info("the deletion of %s waits: %s", sorted(halted), reason)
        term.context.deletion_halted |= halted


async def unhalt(term: Term, topics: Collection[str]) -> None:
    """Resume the deletion of some topics, because what halted them may be over."""
    queued = term.context.deletion_queued.intersection(topics)
    if queued:
        term.context.deletion_halted -= queued
        await resume(term)


async def fail(term: Term, replicas: Collection[Replica]) -> None:
    """Halt the topics of replicas that cannot be deleted now: their brokers are dead, or answered with an error."""
    queued = [replica for replica in replicas if replica.partition.topic in term.context.deletion_queued]
    if not queued:
        return
    await term.replicas.apply(queued, machine.DeletionFailed())
    halt(term, {replica.partition.topic for replica in queued}, "a replica could not be deleted")
    await resume(term)


async def answered(term: Term, broker_id: BrokerId, errors: Iterable[tuple[TopicPartition, Error]]) -> None:
    """Note which replicas a broker has deleted, and which it could not."""
    done: list[Replica] = []
    failed: list[Replica] = []
    for partition, error in errors:
        (done if error is Error.NONE else failed).append(Replica(partition, broker_id))
        if error is not Error.NONE:
            logger.error("broker %d does not delete %s: %s", broker_id, partition, error.name)
    queued = term.context.deletion_queued
    done = [replica for replica in done if replica.partition.topic in queued]
    await term.replicas.apply(done, machine.DeletionConfirmed())
    if failed:
        await fail(term, failed)
    elif done:
        await resume(term)


async def resume(term: Term) -> None:
    """Do for every queued topic what can be done now; only a few are finished at once, the rest in later events."""
    context = term.context
    finished = 0
    retry: list[Replica] = []
    begin: list[str] = []
    for topic in sorted(context.deletion_queued):
        replicas = context.replicas_of(topic)
        states = {context.replica_state(replica) for replica in replicas}
        for step in next_steps(states, is_halted=topic in context.deletion_halted):
            if step is DeletionStep.FINISH:
                if finished < FINISHED_AT_ONCE:
                    await _finish(term, topic)
                    finished += 1
                else:
                    context.deletions_left = True
            elif step is DeletionStep.RETRY:
                retry += [
                    replica
                    for replica in replicas
                    if context.replica_state(replica) is ReplicaState.DELETION_INELIGIBLE
                ]
            else:
                begin.append(topic)
    if retry:
        await term.replicas.apply(retry, machine.ReplicaUnavailable())
    if begin:
        await _begin_round(term, begin)


async def _begin_round(term: Term, topics: Collection[str]) -> None:
    context = term.context
    logger.info("deleting topics %s", sorted(topics))
    partitions = [partition for topic in topics for partition in context.partitions_of(topic)]
    first = [partition for partition in partitions if partition.topic not in context.deletion_begun]
    term.partitions.lose_leaders(first)
    term.partitions.remove(first)
    context.deletion_begun.update(topics)
    # Before any replica stops, every broker forgets the partitions and refuses their clients.
    term.batch.update_metadata(partitions)
    await term.batch.flush()
    planned = plan_round(
        [replica for topic in topics for replica in context.replicas_of(topic)],
        context.replica_state,
        lambda replica: context.is_online(*replica),
    )
    await term.replicas.apply(planned.dead, machine.DeletionFailed())
    await term.replicas.apply(planned.to_delete, machine.ReplicaUnavailable())
    await term.replicas.apply(planned.to_delete, machine.DeletionRequested())
    halt(term, {replica.partition.topic for replica in planned.dead}, "a replica is dead")


async def _finish(term: Term, topic: str) -> None:
    """Remove a topic whose replicas are all deleted; its mark goes last, so that a crash in between is recovered."""
    await term.replicas.apply(term.context.replicas_of(topic), machine.ReplicaForgotten())
    await term.store.delete_topic(topic)
    term.context.remove_topic(topic)
    logger.info("topic %s is deleted", topic)
