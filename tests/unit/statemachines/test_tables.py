"""Every pair of state and event of every table: legal pairs make the transition of the table, others change nothing."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, get_args

import pytest

from cluster.statemachines import partition, replica, transaction
from cluster.statemachines.transition import IllegalTransition

P = partition.PartitionState
R = replica.ReplicaState
T = transaction.TransactionState


def pairs(states: type[Enum], events: Any) -> list[tuple[Enum, type]]:
    return [(state, event) for state in states for event in get_args(events)]


@pytest.mark.parametrize(("state", "event"), pairs(P, partition.PartitionEvent))
def test_partition_pairs(state: P, event: type) -> None:
    check(partition.TRANSITIONS, partition.step, partition.allows, state, event)


@pytest.mark.parametrize(("state", "event"), pairs(R, replica.ReplicaEvent))
def test_replica_pairs(state: R, event: type) -> None:
    check(replica.TRANSITIONS, lambda s, e: replica.step(s, e)[0], replica.allows, state, event)


@pytest.mark.parametrize(("state", "event"), pairs(T, transaction.TransactionEvent))
def test_transaction_pairs(state: T, event: type) -> None:
    check(transaction.TRANSITIONS, transaction.step, transaction.allows, state, event)


def check(
    table: Mapping[Any, Any], step: Callable[..., Any], allows: Callable[..., bool], state: Any, event: type
) -> None:
    if (state, event) in table:
        assert allows(state, event)
        assert step(state, event()) is table[state, event]
        return
    assert not allows(state, event)
    before = dict(table)
    with pytest.raises(IllegalTransition) as caught:
        step(state, event())
    assert caught.value.state is state
    assert caught.value.event == event()
    assert table == before


def test_effects_belong_to_legal_pairs() -> None:
    assert set(replica.EFFECTS) <= set(replica.TRANSITIONS)


def test_kafkas_legal_predecessors() -> None:
    """The tables allow exactly what Kafka's do: each target state, and the states that it can be reached from."""
    kafka_partition = {
        P.NEW: {P.NON_EXISTENT},
        P.ONLINE: {P.NEW, P.ONLINE, P.OFFLINE},
        P.OFFLINE: {P.NEW, P.ONLINE, P.OFFLINE},
        P.NON_EXISTENT: {P.OFFLINE},
    }
    kafka_replica = {
        R.NEW: {R.NON_EXISTENT},
        R.ONLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
        R.OFFLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
        R.DELETION_STARTED: {R.OFFLINE},
        R.DELETION_SUCCESSFUL: {R.DELETION_STARTED},
        R.DELETION_INELIGIBLE: {R.OFFLINE, R.DELETION_STARTED},
        R.NON_EXISTENT: {R.DELETION_SUCCESSFUL},
    }
    kafka_transaction = {
        T.EMPTY: {T.EMPTY, T.COMPLETE_COMMIT, T.COMPLETE_ABORT},
        T.ONGOING: {T.ONGOING, T.EMPTY, T.COMPLETE_COMMIT, T.COMPLETE_ABORT},
        T.PREPARE_COMMIT: {T.ONGOING},
        T.PREPARE_ABORT: {T.ONGOING},
        T.COMPLETE_COMMIT: {T.PREPARE_COMMIT},
        T.COMPLETE_ABORT: {T.PREPARE_ABORT},
        T.DEAD: {T.EMPTY, T.COMPLETE_COMMIT, T.COMPLETE_ABORT},
    }
    assert predecessors(transaction.TRANSITIONS) == kafka_transaction
    assert predecessors(partition.TRANSITIONS) == kafka_partition
    assert predecessors(replica.TRANSITIONS) == kafka_replica


def predecessors(table: Mapping[Any, Any]) -> dict[Any, set[Any]]:
    found: dict[Any, set[Any]] = {}
    for (before, _), after in table.items():
        found.setdefault(after, set()).add(before)
    return found


def test_leaving_the_isr_comes_before_the_request() -> None:
    for effects in replica.EFFECTS.values():
        kinds = [type(effect) for effect in effects]
        if replica.LeaveIsr in kinds:
            assert kinds.index(replica.LeaveIsr) < kinds.index(replica.StopReplica)
