"""The steps of a deletion follow from the states of the replicas alone."""

import pytest

from cluster.statemachines.replica import ReplicaState as S
from cluster.statemachines.topic_deletion import DeletionStep, Replica, next_steps, plan_round
from wire.types import BrokerId, TopicPartition


@pytest.mark.parametrize(
    ("states", "halted", "expected"),
    [
        ([], False, [DeletionStep.FINISH]),
        ([S.DELETION_SUCCESSFUL] * 3, False, [DeletionStep.FINISH]),
        ([S.DELETION_SUCCESSFUL] * 3, True, [DeletionStep.FINISH]),
        ([S.ONLINE, S.ONLINE], False, [DeletionStep.BEGIN]),
        ([S.ONLINE, S.ONLINE], True, []),
        ([S.DELETION_STARTED, S.DELETION_SUCCESSFUL], False, []),
        ([S.DELETION_STARTED, S.DELETION_INELIGIBLE], False, []),
        ([S.DELETION_INELIGIBLE, S.DELETION_SUCCESSFUL], True, [DeletionStep.RETRY]),
        ([S.DELETION_INELIGIBLE, S.ONLINE], False, [DeletionStep.RETRY, DeletionStep.BEGIN]),
    ],
)
def test_next_steps(states: list[S], halted: bool, expected: list[DeletionStep]) -> None:
    assert list(next_steps(states, is_halted=halted)) == expected


def test_plan_round() -> None:
    partition = TopicPartition("t", 0)
    replicas = [Replica(partition, BrokerId(broker_id)) for broker_id in range(4)]
    states = dict(zip(replicas, [S.ONLINE, S.OFFLINE, S.DELETION_SUCCESSFUL, S.ONLINE], strict=True))
    planned = plan_round(replicas, states.__getitem__, lambda replica: replica.broker_id in (0, 1))
    assert planned.to_delete == (replicas[0], replicas[1])
    assert planned.dead == (replicas[3],)
