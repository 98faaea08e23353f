"""Who leads: the order of the assignment, live and in sync; unclean only where allowed."""

from collections.abc import Iterable

import pytest

from cluster.statemachines.elections import (
    IsLive,
    bump_leader_epoch,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    leave_isr,
)
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership, initial_leadership
from wire.types import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion

EPOCH = ControllerEpoch(7)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)


def live(*ids: int) -> IsLive:
    return frozenset(ids).__contains__


def led(leader: int, isr: Iterable[int]) -> PartitionLeadership:
    return PartitionLeadership(
        BrokerId(leader), LeaderEpoch(4), brokers(*isr), ControllerEpoch(3), ZkVersion(9)
    )


def assigned(*ids: int) -> PartitionAssignment:
    return PartitionAssignment(brokers(*ids))


def test_offline_takes_the_assignments_order_not_the_isrs() -> None:
    election = elect_offline(
        assigned(0, 1, 2), led(0, [2, 1, 0]), live(1, 2), controller_epoch=EPOCH, unclean=False
    )
    assert election is not None
    assert election.leadership == PartitionLeadership(
        BrokerId(1), LeaderEpoch(5), brokers(2, 1), EPOCH, ZkVersion(9)
    )
    assert election.recipients == brokers(1, 2)
    assert not election.unclean


def test_offline_without_a_live_member_of_the_isr() -> None:
    arguments = (assigned(0, 1, 2), led(0, [0]), live(1, 2))
    assert elect_offline(*arguments, controller_epoch=EPOCH, unclean=False) is None
    election = elect_offline(*arguments, controller_epoch=EPOCH, unclean=True)
    assert election is not None
    assert election.unclean
    assert election.leadership.leader == 1
    assert election.leadership.isr == (1,)
    assert election.leadership.recovering
    assert not election.leadership.with_isr(brokers(1, 2)).recovering


def test_offline_prefers_the_isr_even_where_unclean_is_allowed() -> None:
    election = elect_offline(
        assigned(0, 1, 2), led(0, [0, 2]), live(1, 2), controller_epoch=EPOCH, unclean=True
    )
    assert election is not None
    assert (election.leadership.leader, election.unclean) == (2, False)


def test_nobody_is_live() -> None:
    arguments = (assigned(0, 1), led(0, [0, 1]), live())
    assert elect_offline(*arguments, controller_epoch=EPOCH, unclean=True) is None
    assert elect_preferred(*arguments, controller_epoch=EPOCH) is None
    assert elect_reassigned(*arguments, controller_epoch=EPOCH) is None
    assert elect_controlled_shutdown(*arguments, controller_epoch=EPOCH, shutting_down=()) is None


def test_preferred() -> None:
    election = elect_preferred(assigned(0, 1), led(1, [1, 0]), live(0, 1), controller_epoch=EPOCH)
    assert election is not None
    assert (election.leadership.leader, election.leadership.isr) == (0, (1, 0))
    assert election.recipients == (0, 1)
    assert elect_preferred(assigned(0, 1), led(1, [1]), live(0, 1), controller_epoch=EPOCH) is None


def test_reassigned_elects_among_the_target() -> None:
    assignment = assigned(1, 2, 3).reassign_to(brokers(3, 4, 5))
    election = elect_reassigned(assignment, led(1, [1, 2, 3, 4, 5]), live(1, 2, 4, 5), controller_epoch=EPOCH)
    assert election is not None
    assert election.leadership.leader == 4
    assert election.leadership.isr == (1, 2, 3, 4, 5)
    assert election.recipients == (3, 4, 5)


def test_controlled_shutdown_tells_the_old_leader_too() -> None:
    election = elect_controlled_shutdown(
        assigned(0, 1, 2),
        led(0, [0, 2]),
        live(0, 1, 2),
        controller_epoch=EPOCH,
        shutting_down={BrokerId(0)},
    )
    assert election is not None
    assert (election.leadership.leader, election.leadership.isr) == (2, (2,))
    assert election.recipients == (0, 1, 2)


@pytest.mark.parametrize(
    ("leader", "isr", "leaving", "expected"),
    [
        (0, [0, 1], [1], (0, (0,))),
        (0, [0, 1], [0], (NO_LEADER, (1,))),
        (0, [0], [0], (NO_LEADER, (0,))),
        (0, [0, 1, 2], [1, 2, 3], (0, (0,))),
        (0, [0, 1], [0, 1], (NO_LEADER, (0, 1))),
    ],
)
def test_leave_isr(
    leader: int, isr: list[int], leaving: list[int], expected: tuple[int, tuple[int, ...]]
) -> None:
    decided = leave_isr(led(leader, isr), brokers(*leaving), EPOCH)
    assert decided is not None
    assert (decided.leader, decided.isr) == expected
    assert decided.leader_epoch == 5


def test_leave_isr_of_a_stranger_changes_nothing() -> None:
    assert leave_isr(led(0, [0, 1]), brokers(2), EPOCH) is None
    assert leave_isr(led(NO_LEADER, [0]), brokers(0), EPOCH) is None


def test_every_decision_raises_the_epoch_by_one() -> None:
    bumped = bump_leader_epoch(led(0, [0, 1]), EPOCH)
    assert bumped == PartitionLeadership(BrokerId(0), LeaderEpoch(5), brokers(0, 1), EPOCH, ZkVersion(9))


def test_initial_leadership() -> None:
    first = initial_leadership(brokers(2, 0), EPOCH)
    assert (first.leader, first.isr, first.leader_epoch, first.zk_version) == (2, (2, 0), 0, 0)
    with pytest.raises(ValueError, match="without a live replica"):
        initial_leadership((), EPOCH)


def test_reassignment_and_its_cancellation() -> None:
    moving = assigned(1, 2, 3).reassign_to(brokers(3, 4))
    assert moving == PartitionAssignment(brokers(3, 4, 1, 2), adding=brokers(4), removing=brokers(1, 2))
    assert moving.is_being_reassigned
    assert moving.target == (3, 4)
    assert moving.origin == (3, 1, 2)
    replaced = moving.reassign_to(brokers(5, 1))
    assert replaced == PartitionAssignment(brokers(5, 1, 3, 2), adding=brokers(5), removing=brokers(3, 2))
    cancelled = moving.reassign_to(moving.origin)
    assert cancelled == PartitionAssignment(brokers(3, 1, 2))
    assert not cancelled.is_being_reassigned
