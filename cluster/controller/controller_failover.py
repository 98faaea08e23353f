"""Taking office: read everything, tell every broker which brokers live, then elect a leader for every partition.

Watches are left with the first reads, so that nothing changes unseen between reading and watching. Reads of
one kind overlap. The brokers learn of each other (UpdateMetadata) before they learn their roles
(LeaderAndIsr), because a follower has to know where its leader listens.
"""

import logging

import trio

from cluster.controller import broker_changes, deletions, leader_elections, reassignments
from cluster.controller.request_batch import PARTITIONS_PER_TURN
from cluster.controller.term import Term
from cluster.controller.topic_changes import load_topics
from cluster.statemachines import replica as machine
from cluster.statemachines.partition import PartitionState
from cluster.statemachines.replica import ReplicaState
from cluster.statemachines.topic_deletion import Replica

logger = logging.getLogger(__name__)


async def fail_over(term: Term) -> None:
    """Do all that a new controller does before its first event.

    Cancelled or failed in between, it leaves nothing that the next controller has to undo.

    Raises:
        ControllerMovedError: another controller was elected meanwhile.
    """
    context, store = term.context, term.store
    await store.ensure_features()
    await _drop_old_notifications(term)
    context.brokers.update(await store.read_brokers(term.watches.brokers))
    await broker_changes.watch_registrations(term, context.brokers)
    partitions = await load_topics(term, await store.read_topics(term.watches.topics))
    context.leaderships.update(await store.read_partition_states(partitions))
    context.reassigning.update(
        tp for tp, assignment in context.all_partitions() if assignment.is_being_reassigned
    )
    logger.info(
        "controller epoch %d: %d brokers, %d topics, %d partitions",
        context.epoch,
        len(context.brokers),
        len(context.topics),
        len(partitions),
    )
    for registration in context.brokers.values():
        term.channels.open(registration)
    await deletions.load(term)
    term.batch.update_metadata(context.leaderships)
    await term.batch.flush()
    await _start_machines(term)
    await reassignments.resume_all(term)
    # Once more, now that deletions can begin: this also deletes marks that belong to no topic.
    await deletions.deletions_changed(term)
    await leader_elections.preferred_election_requested(term)


async def _drop_old_notifications(term: Term) -> None:
    """Delete the notifications left for the last controller: what they announce is read anyway."""
    names, _ = await term.store.read_log_dir_events(term.watches.log_dir_events)
    await term.store.delete_log_dir_events(names)
    names, _ = await term.store.read_isr_changes(term.watches.isr_changes)
    await term.store.delete_isr_changes(names)


async def _start_machines(term: Term) -> None:
    context = term.context
    online = []
    dead = []
    for index, (partition, assignment) in enumerate(context.all_partitions()):
        if index % PARTITIONS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        for broker_id in assignment.replicas:
            replica = Replica(partition, broker_id)
            if context.is_online(partition, broker_id):
                online.append(replica)
                context.put_replica_state(replica, ReplicaState.ONLINE)
            else:
                # Whatever its topic's state: even one that is to be deleted could not be deleted now.
                context.put_replica_state(replica, ReplicaState.DELETION_INELIGIBLE)
                dead.append(replica)
        leadership = context.leaderships.get(partition)
        if leadership is None:
            state = PartitionState.NEW
        elif context.is_online(partition, leadership.leader):
            state = PartitionState.ONLINE
        else:
            state = PartitionState.OFFLINE
        context.put_partition_state(partition, state)
    await term.replicas.apply(online, machine.ReplicaAvailable())
    await term.partitions.bring_online()
    await _shrink_dead(term, dead)


async def _shrink_dead(term: Term, dead: list[Replica]) -> None:
    """Take dead replicas out of the ISRs, and out of their leaderships.

    Their brokers may have died together with the last controller. Kafka leaves this to the leaders, and
    producers with acks=all wait until these time out.
    """
    context = term.context
    counted_on = [
        replica
        for replica in dead
        if (leadership := context.leaderships.get(replica.partition)) is not None
        and replica.broker_id in leadership.isr
        and leadership.has_leader
    ]
    await term.replicas.apply(counted_on, machine.ReplicaUnavailable())
