"""The steps that events and calls lead to."""

import logging
from typing import assert_never

from cluster.controller import (
    broker_changes,
    calls,
    deletions,
    events,
    isr_changes,
    leader_elections,
    reassignments,
    topic_changes,
)
from cluster.controller.calls import Call
from cluster.controller.event_queue import EventQueue
from cluster.controller.term import Term
from wire.errors import Error
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from wire.types import TopicPartition

logger = logging.getLogger(__name__)

TermEvent = (
    events.BrokersChanged
    | events.BrokerModified
    | events.TopicsChanged
    | events.PartitionsChanged
    | events.TopicDeletionsChanged
    | events.DeletionsLeft
    | events.IsrChangesNotified
    | events.LogDirectoryFailed
    | events.ReassignmentsRequested
    | events.PreferredElectionRequested
    | events.UncleanElectionEnabled
    | events.RebalanceDue
    | events.LeaderAndIsrAnswered
    | events.DeletionAnswered
)
"""The events that concern only a broker in office."""


async def take_step(term: Term, event: TermEvent, queue: EventQueue) -> None:
    """React to an event.

    Args:
        term: The term of office.
        event: What happened.
        queue: Where further events of the same kind are taken from, if many can be dealt with at once.

    Raises:
        ControllerMovedError: another controller was elected; this term is over.
        SessionExpiredError: the session is over, and with it this term.
    """
    match event:
        case events.BrokersChanged():
            await broker_changes.brokers_changed(term)
        case events.BrokerModified():
            modified = [event, *queue.take_all(events.BrokerModified)]
            await broker_changes.broker_modified(term, {each.broker_id for each in modified})
        case events.TopicsChanged():
            await topic_changes.topics_changed(term)
        case events.PartitionsChanged():
            changed = [event, *queue.take_all(events.PartitionsChanged)]
            await topic_changes.partitions_changed(term, {each.topic for each in changed})
        case events.TopicDeletionsChanged():
            await deletions.deletions_changed(term)
        case events.DeletionsLeft():
            await deletions.resume(term)
        case events.IsrChangesNotified():
            await isr_changes.notified(term)
        case events.LogDirectoryFailed():
            await broker_changes.log_directory_failed(term)
        case events.ReassignmentsRequested():
            await reassignments.requested(term)
        case events.PreferredElectionRequested():
            await leader_elections.preferred_election_requested(term)
        case events.UncleanElectionEnabled(topic):
            await _unclean_election_enabled(term, topic)
        case events.RebalanceDue():
            await leader_elections.rebalance(term)
        case events.LeaderAndIsrAnswered():
            await _roles_answered(term, event)
        case events.DeletionAnswered(broker_id, broker_epoch, errors):
            # The present registration of the broker has been asked again what the earlier one was asked.
            if term.context.broker_epoch(broker_id) == broker_epoch:
                await deletions.answered(term, broker_id, errors)
        case _:
            assert_never(event)
    if term.context.deletions_left:
        term.context.deletions_left = False
        queue.put(events.DeletionsLeft())


async def _unclean_election_enabled(term: Term, topic: str | None) -> None:
    leaderless = term.context.leaderless_partitions()
    await term.partitions.bring_online(
        [partition for partition in leaderless if topic is None or partition.topic == topic]
    )


async def _roles_answered(term: Term, event: events.LeaderAndIsrAnswered) -> None:
    if term.context.broker_epoch(event.broker_id) != event.broker_epoch:
        # An earlier registration answered: the replicas that it lost say nothing about the present one.
        return
    errors = [
        (TopicPartition(name, partition.partition_index), Error.from_code(partition.error_code))
        for topic in event.response.topics
        if (name := term.context.topic_name(topic.topic_id)) is not None
        for partition in topic.partition_errors
    ]
    await broker_changes.roles_answered(term, event.broker_id, errors)


async def answer_call(term: Term, call: Call) -> object:
    """Carry out a call, and return its outcome for the caller.

    Raises:
        ApiError: it is refused.
        ControllerMovedError: another controller was elected.
    """
    match call:
        case calls.ControlledShutdown(broker_id, broker_epoch):
            return await broker_changes.controlled_shutdown(term, broker_id, broker_epoch)
        case calls.AlterPartition(request, version):
            return await isr_changes.alter_partition(term, request, version)
        case calls.ElectLeaders(partitions, kind):
            if partitions is None:
                partitions = tuple(partition for partition, _ in term.context.all_partitions())
            return await leader_elections.elect(term, partitions, kind)
        case calls.Reassign(targets):
            return await reassignments.reassign(term, targets)
        case calls.ListReassignments(partitions):
            return reassignments.ongoing(term, partitions)
        case calls.AllocateProducerIds(request):
            return await _allocate_producer_ids(term, request)
        case _:
            assert_never(call)


async def _allocate_producer_ids(
    term: Term, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    epoch = term.context.broker_epoch(request.broker_id)
    if epoch is None:
        return AllocateProducerIdsResponse(error_code=Error.BROKER_ID_NOT_REGISTERED)
    if epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=Error.STALE_BROKER_EPOCH)
    block = await term.store.next_producer_id_block(request.broker_id)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
