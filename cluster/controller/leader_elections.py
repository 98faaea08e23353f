"""Requested elections: by operators through API or znode, and by the rebalance to preferred leaders."""

import logging
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final, assert_never

from cluster.controller.partition_transitions import ElectionFailed, ElectionOutcome
from cluster.controller.term import Term
from cluster.statemachines.elections import elect_preferred
from cluster.statemachines.leadership import PartitionLeadership
from wire.errors import ApiError, Error
from wire.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

ElectionResult = BrokerId | ApiError
"""The new leader, or why none was elected."""


class ElectionKind(Enum):
    """What ElectLeaders can ask for; the values are those on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


_STRATEGIES: Final = {
    ElectionKind.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    ElectionKind.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
}
"""Kafka's names of the strategies in its messages, which its own tests and operators' scripts look for."""


async def elect(
    term: Term, partitions: Iterable[TopicPartition], kind: ElectionKind
) -> dict[TopicPartition, ElectionResult]:
    """Elect leaders as ElectLeaders asks.

    Returns:
        For each partition the leader, or the error that Kafka gives: ELECTION_NOT_NEEDED where the leader is
        already the preferred one or, for an unclean election, alive.
    """
    context = term.context
    results: dict[TopicPartition, ElectionResult] = {}
    electable = []
    for partition in partitions:
        leadership = context.leaderships.get(partition)
        if not context.assignment(partition).replicas:
            results[partition] = ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif partition.topic in context.deletion_queued:
            results[partition] = ApiError(Error.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        elif leadership is not None and not _is_needed(term, partition, leadership, kind):
            results[partition] = ApiError(Error.ELECTION_NOT_NEEDED)
        else:
            electable.append(partition)
    strategy = _STRATEGIES[kind]
    if kind is ElectionKind.PREFERRED:
        outcomes = await term.partitions.elect_preferred(electable)
        failure = Error.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        outcomes = await term.partitions.elect_offline(electable, unclean=True)
        failure = Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return results | {tp: _result(tp, outcome, failure, strategy) for tp, outcome in outcomes.items()}


def _is_needed(
    term: Term, partition: TopicPartition, leadership: PartitionLeadership, kind: ElectionKind
) -> bool:
    if kind is ElectionKind.PREFERRED:
        return leadership.leader != term.context.assignment(partition).replicas[0]
    return not leadership.has_leader or not term.context.is_live(leadership.leader)


def _result(
    partition: TopicPartition, outcome: ElectionOutcome, failure: Error, strategy: str
) -> ElectionResult:
    match outcome:
        case ElectionFailed(reason):
            return ApiError(
                failure,
                f"Failed to elect leader for partition {partition} under strategy {strategy}: {reason}",
            )
        case PartitionLeadership():
            return outcome.leader
        case _:
            assert_never(outcome)


async def preferred_election_requested(term: Term) -> None:
    """Run the elections in ``/admin/preferred_replica_election``, and delete the node whatever their outcome.

    The node is the lock that keeps old tools from asking twice, so it must not stay.
    """
    asked = await term.store.read_preferred_election(term.watches.preferred_election)
    if asked is None:
        return
    for partition, result in (await elect(term, sorted(asked), ElectionKind.PREFERRED)).items():
        if isinstance(result, ApiError) and result.error is not Error.ELECTION_NOT_NEEDED:
            logger.warning("partition %s: no preferred leader: %s", partition, result)
    await term.store.delete_preferred_election()


async def rebalance(term: Term) -> None:
    """Return leaderships to the preferred brokers that have too many partitions led elsewhere."""
    context = term.context
    preferred_by: dict[BrokerId, list[TopicPartition]] = {}
    for partition, assignment in context.all_partitions():
        if assignment.replicas and partition.topic not in context.deletion_queued:
            preferred_by.setdefault(assignment.replicas[0], []).append(partition)
    limit = term.settings.leader_imbalance_per_broker_percentage / 100
    for broker_id, partitions in sorted(preferred_by.items()):
        elsewhere = [
            partition
            for partition in partitions
            if (leadership := context.leaderships.get(partition)) is not None
            and leadership.leader != broker_id
        ]
        if len(elsewhere) / len(partitions) > limit:
            await _give_back(term, broker_id, elsewhere)


async def _give_back(term: Term, broker_id: BrokerId, partitions: Collection[TopicPartition]) -> None:
    context = term.context
    ready = [
        partition
        for partition in partitions
        if elect_preferred(
            context.assignment(partition),
            context.leaderships[partition],
            lambda replica, partition=partition: context.is_online(partition, replica),  # type: ignore[misc]
            controller_epoch=context.epoch,
        )
        is not None
    ]
    if ready:
        logger.info("broker %d gets %d leaderships back", broker_id, len(ready))
        await term.partitions.elect_preferred(ready)
