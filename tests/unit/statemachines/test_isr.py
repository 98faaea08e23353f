"""The leader's ISR: while a change is under way it is uncertain, and the worse case is assumed."""

import pytest

from cluster.statemachines.isr import (
    ChangeCommitted,
    ChangeRefused,
    ChangeSuperseded,
    CommittedIsr,
    ExpandProposed,
    IsrEvent,
    IsrState,
    LeadershipReceived,
    PendingExpand,
    PendingShrink,
    ShrinkProposed,
    step,
)
from cluster.statemachines.leadership import PartitionLeadership
from cluster.statemachines.transition import IllegalTransition
from wire.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)


LEADERSHIP = PartitionLeadership(
    BrokerId(1), LeaderEpoch(2), brokers(1, 2), ControllerEpoch(1), ZkVersion(5), recovering=True
)
COMMITTED = CommittedIsr(LEADERSHIP)
EXPANDING = step(COMMITTED, ExpandProposed(BrokerId(3)))
SHRINKING = step(COMMITTED, ShrinkProposed(frozenset(brokers(2))))
NEXT = PartitionLeadership(BrokerId(1), LeaderEpoch(3), brokers(1), ControllerEpoch(1), ZkVersion(8))


def test_expanding_waits_for_the_new_member_but_does_not_count_it() -> None:
    assert isinstance(EXPANDING, PendingExpand)
    assert EXPANDING.isr == {1, 2}
    assert EXPANDING.maximal_isr == {1, 2, 3}
    assert EXPANDING.is_pending
    assert EXPANDING.leadership == LEADERSHIP
    assert EXPANDING.proposed.isr == (1, 2, 3)
    assert EXPANDING.proposed.zk_version == 5
    assert not EXPANDING.proposed.recovering


def test_shrinking_waits_for_the_old_member_and_counts_it() -> None:
    assert isinstance(SHRINKING, PendingShrink)
    assert SHRINKING.isr == SHRINKING.maximal_isr == {1, 2}
    assert SHRINKING.proposed.isr == (1,)
    assert SHRINKING.replicas == {2}


@pytest.mark.parametrize("pending", [EXPANDING, SHRINKING])
def test_outcomes(pending: IsrState) -> None:
    assert isinstance(pending, PendingExpand | PendingShrink)
    committed = step(pending, ChangeCommitted(ZkVersion(6)))
    assert committed == CommittedIsr(pending.proposed.at_version(ZkVersion(6)))
    assert committed.maximal_isr == committed.isr == set(pending.proposed.isr)
    assert not committed.is_pending
    assert step(pending, ChangeRefused()) == COMMITTED
    assert step(pending, ChangeSuperseded()) is pending
    assert step(pending, LeadershipReceived(NEXT)) == CommittedIsr(NEXT)


def test_the_controllers_word_wins() -> None:
    assert step(COMMITTED, LeadershipReceived(NEXT)) == CommittedIsr(NEXT)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (COMMITTED, ChangeCommitted(ZkVersion(6))),
        (COMMITTED, ChangeRefused()),
        (COMMITTED, ChangeSuperseded()),
        (COMMITTED, ExpandProposed(BrokerId(2))),
        (COMMITTED, ShrinkProposed(frozenset(brokers(3)))),
        (COMMITTED, ShrinkProposed(frozenset(brokers(1)))),
        (COMMITTED, ShrinkProposed(frozenset(brokers(1, 2)))),
        (EXPANDING, ExpandProposed(BrokerId(4))),
        (EXPANDING, ShrinkProposed(frozenset(brokers(2)))),
        (SHRINKING, ExpandProposed(BrokerId(4))),
        (SHRINKING, ShrinkProposed(frozenset(brokers(2)))),
    ],
)
def test_illegal_events_change_nothing(state: IsrState, event: IsrEvent) -> None:
    before = repr(state)
    with pytest.raises(IllegalTransition):
        step(state, event)
    assert repr(state) == before
