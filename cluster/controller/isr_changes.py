"""ISR changes by leaders: announced through ZooKeeper, or asked for with AlterPartition.

Ottla's leaders write the partition's znode themselves and leave a notification; Kafka's ask the controller to
write. Neither raises the leader epoch, so only the metadata for clients has to be updated.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from cluster.controller import reassignments
from cluster.controller.term import Term
from cluster.statemachines.leadership import PartitionLeadership
from cluster.zookeeper.client import BadVersionError, ZooKeeperError
from wire.errors import Error
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)
from wire.types import NO_TOPIC_ID, TopicPartition

logger = logging.getLogger(__name__)

RECOVERING = 1
"""``leader_recovery_state`` of a leader that was elected uncleanly and has not recovered yet."""
_FIRST_VERSION_WITH_IDS = 2
_FIRST_VERSION_WITH_EPOCHS = 3

_Answer = PartitionLeadership | Error


async def notified(term: Term) -> None:
    """Read the ISRs that leaders announced, adopt them, and tell every broker."""
    names, partitions = await term.store.read_isr_changes(term.watches.isr_changes)
    known = sorted(partition for partition in partitions if term.context.assignment(partition).replicas)
    if known:
        await _refresh(term, known)
        term.batch.update_metadata(known)
        await term.batch.flush()
        await reassignments.complete_caught_up(term, known)
    await term.store.delete_isr_changes(names)


async def _refresh(term: Term, partitions: Iterable[TopicPartition]) -> None:
    states = await term.store.read_partition_states(list(partitions))
    for partition, leadership in states.items():
        if leadership.controller_epoch <= term.context.epoch:
            term.context.leaderships[partition] = leadership


async def alter_partition(term: Term, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    """Write in-sync replicas for a leader that asks for it.

    Args:
        term: The term of office.
        request: The partitions, and their new in-sync replicas.
        version: Of the request: from 2 on topics are named by id, from 3 on members carry broker epochs.
    """
    if term.context.broker_epoch(request.broker_id) != request.broker_epoch:
        return AlterPartitionResponse(error_code=Error.STALE_BROKER_EPOCH)
    topics: list[TopicDataResponse] = []
    asked: dict[TopicPartition, tuple[PartitionData, tuple[TopicDataResponse, list[PartitionDataResponse]]]]
    asked = {}
    for topic in request.topics:
        by_id = version >= _FIRST_VERSION_WITH_IDS
        name = term.context.topic_name(topic.topic_id) if by_id else topic.topic_name
        answers: list[PartitionDataResponse] = []
        response = TopicDataResponse(
            topic_name="" if by_id else topic.topic_name,
            topic_id=topic.topic_id if by_id else NO_TOPIC_ID,
            partitions=answers,
        )
        topics.append(response)
        for partition in topic.partitions:
            if name is None:
                answers.append(_answer(partition.partition_index, Error.UNKNOWN_TOPIC_ID))
            else:
                asked[TopicPartition(name, partition.partition_index)] = (partition, (response, answers))
    outcomes = await _alter(
        term, {tp: _wanted(term, tp, data, request, version) for tp, (data, _) in asked.items()}
    )
    for tp, outcome in outcomes.items():
        asked[tp][1][1].append(_answer(tp.partition, outcome))
    term.batch.update_metadata(asked)
    await term.batch.flush()
    written = [tp for tp, outcome in outcomes.items() if isinstance(outcome, PartitionLeadership)]
    await reassignments.complete_caught_up(term, written)
    return AlterPartitionResponse(topics=topics)


async def _alter(term: Term, wanted: dict[TopicPartition, _Answer]) -> dict[TopicPartition, _Answer]:
    """Write the proposals that are allowed; return an outcome for each partition, in order."""
    context = term.context
    outcomes = dict(wanted)
    proposals = [
        (tp, proposal)
        for tp, proposal in wanted.items()
        if isinstance(proposal, PartitionLeadership) and proposal is not context.leaderships[tp]
    ]
    if not proposals:
        return outcomes
    for tp, result in (await term.store.write_partition_states(proposals)).items():
        if isinstance(result, BadVersionError):
            outcomes[tp] = Error.INVALID_UPDATE_VERSION
            await _refresh(term, [tp])
        elif isinstance(result, ZooKeeperError):
            logger.error("partition %s: its in-sync replicas were not written: %s", tp, result)
            outcomes[tp] = Error.UNKNOWN_SERVER_ERROR
        else:
            outcomes[tp] = context.leaderships[tp] = result
    return outcomes


def _wanted(
    term: Term, tp: TopicPartition, data: PartitionData, request: AlterPartitionRequest, version: int
) -> _Answer:
    """Return what to write for a partition, its present leadership if nothing changes, or an error."""
    context = term.context
    current = context.leaderships.get(tp)
    if current is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if data.partition_epoch > current.zk_version or data.leader_epoch > current.leader_epoch:
        # The leader knows more than we do: there must be a newer controller, which it has to find.
        return Error.NOT_CONTROLLER
    if data.leader_epoch < current.leader_epoch:
        return Error.FENCED_LEADER_EPOCH
    members = data.new_isr
    if version >= _FIRST_VERSION_WITH_EPOCHS:
        members = [member.broker_id for member in data.new_isr_with_epochs]
    recovering = data.leader_recovery_state == RECOVERING
    proposal = replace(
        current,
        leader=request.broker_id,
        isr=tuple(members),
        controller_epoch=context.epoch,
        recovering=recovering,
    )
    if replace(proposal, controller_epoch=current.controller_epoch) == current:
        # A repeated request whose first response was lost. Check this before the epoch, which the first one raised.
        return current
    if data.partition_epoch < current.zk_version:
        return Error.INVALID_UPDATE_VERSION
    if recovering and (len(members) > 1 or not current.recovering):
        return Error.INVALID_REQUEST
    if not members or not context.live_brokers().issuperset(members):
        eligible = version >= _FIRST_VERSION_WITH_IDS
        return Error.INELIGIBLE_REPLICA if eligible else Error.OPERATION_NOT_ATTEMPTED
    return proposal


def _answer(partition: int, outcome: _Answer) -> PartitionDataResponse:
    if isinstance(outcome, Error):
        return PartitionDataResponse(partition_index=partition, error_code=outcome)
    return PartitionDataResponse(
        partition_index=partition,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=outcome.isr,
        leader_recovery_state=RECOVERING if outcome.recovering else 0,
        partition_epoch=outcome.zk_version,
    )
