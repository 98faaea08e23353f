"""Topics that were created, extended or removed in ZooKeeper."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import uuid4

from cluster.controller.term import Term
from cluster.statemachines import replica as machine
from cluster.zookeeper.client import BadVersionError, NoNodeError
from cluster.zookeeper.znodes import MalformedZnodeError, TopicAssignment
from wire.types import TopicId, TopicPartition, ZkVersion

logger = logging.getLogger(__name__)

_RESERVED_IDS: Final = (bytes(16), (1).to_bytes(16, "big"))
"""Kafka's "no id", and the id of its metadata topic."""


def new_topic_id() -> TopicId:
    """Make an id for a topic: random, not reserved, and not beginning with a dash, which tools take for a flag."""
    while True:
        raw = uuid4().bytes
        if raw not in _RESERVED_IDS and raw[0] >> 2 != 62:
            return TopicId(raw)


async def topics_changed(term: Term) -> None:
    """Read which topics there are; start the new ones, forget the removed ones."""
    context = term.context
    names = set(await term.store.read_topics(term.watches.topics))
    for topic in sorted(context.topics.keys() - names):
        logger.warning("topic %s went without being deleted by a controller", topic)
        context.remove_topic(topic)
    await start_partitions(term, await load_topics(term, sorted(names - context.topics.keys())))


async def load_topics(term: Term, topics: Sequence[str]) -> list[TopicPartition]:
    """Read topics, watch them, give ids to those that lack one; return their partitions."""
    if not topics:
        return []
    partitions = []
    for topic, (assignment, version) in (
        await term.store.read_assignments(topics, term.watches.topic)
    ).items():
        if assignment.topic_id is None:
            identified = await _assign_id(term, topic, assignment, version)
            if identified is None:
                continue
            assignment = identified
        term.context.add_topic(topic, assignment.topic_id, assignment.partitions)
        partitions += term.context.partitions_of(topic)
    return partitions


async def _assign_id(
    term: Term, topic: str, assignment: TopicAssignment, version: ZkVersion
) -> TopicAssignment | None:
    """Write an id into the znode of a topic that is older than topic ids."""
    while assignment.topic_id is None:
        identified = TopicAssignment(new_topic_id(), assignment.partitions)
        try:
            await term.store.set_topic_assignment(topic, identified, version)
        except NoNodeError:
            return None
        except BadVersionError:
            found = await _reread(term, topic)
            if found is None:
                return None
            assignment, version = found
        else:
            return identified
    return assignment


async def _reread(term: Term, topic: str) -> tuple[TopicAssignment, ZkVersion] | None:
    try:
        return await term.store.read_topic(topic)
    except MalformedZnodeError:
        logger.exception("topic %s is left alone", topic)
        return None


async def partitions_changed(term: Term, topics: Collection[str]) -> None:
    """Read which topics got partitions, and start these.

    Partitions never go away, and new assignments of known partitions are ignored here: they come through
    reassignments.
    """
    context = term.context
    assignments = await term.store.read_assignments(sorted(topics), term.watches.topic)
    added: list[TopicPartition] = []
    for topic, (assignment, version) in assignments.items():
        if topic not in context.topics:
            # Not known yet, or unreadable until now.
            await topics_changed(term)
            continue
        new = {
            partition: replicas
            for partition, replicas in assignment.partitions.items()
            if partition not in context.topics[topic]
        }
        if new and topic in context.deletion_queued:
            await _refuse_partitions(term, topic, assignment, version, new)
        elif new:
            context.add_topic(topic, context.topic_ids.get(topic), new)
            added += [TopicPartition(topic, partition) for partition in new]
    await start_partitions(term, added)


async def _refuse_partitions(
    term: Term, topic: str, assignment: TopicAssignment, version: ZkVersion, new: Mapping[int, object]
) -> None:
    """Remove partitions that were added to a topic under deletion: they would outlive it."""
    logger.warning("topic %s is being deleted: partitions %s are not added", topic, sorted(new))
    kept = {partition: a for partition, a in assignment.partitions.items() if partition not in new}
    try:
        await term.store.set_topic_assignment(topic, TopicAssignment(assignment.topic_id, kept), version)
    except (BadVersionError, NoNodeError):
        # Written again or gone: the watch fires, and we read it again.
        return


async def start_partitions(term: Term, partitions: Sequence[TopicPartition]) -> None:
    """Start new partitions: their replicas, first leaders and ISRs."""
    if not partitions:
        return
    logger.info("starting %d new partitions", len(partitions))
    term.partitions.assign(partitions)
    replicas = term.context.replicas_for(partitions)
    await term.replicas.apply(replicas, machine.ReplicaAssigned())
    await term.partitions.bring_online(partitions)
    await term.replicas.apply(replicas, machine.ReplicaAvailable())
