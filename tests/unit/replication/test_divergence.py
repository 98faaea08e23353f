"""Where logs diverge: what the leader answers, and where the follower truncates."""

from typing import NamedTuple

import pytest

from cluster.replication.follower.fetch_state import truncation_offset
from tests.unit.replication.in_memory import partitions_of
from wire.errors import Error
from wire.types import LeaderEpoch, Offset


def write_epochs(broker, epochs):
    """Fill a log with one record each: epochs[i] is the leader epoch of offset i."""
    partition = broker.partition
    for epoch in epochs:
        if epoch != partition.leader_epoch:
            broker.order(1, (1,), epoch=epoch)
        broker.produce(1)
    return partition


class Cut(NamedTuple):
    name: str
    ours: list[int]
    epoch: int
    end: int
    expected: int
    asked_from: int = -1


CUTS = [
    Cut("the leader's epoch ended earlier than ours", [1, 1, 1, 2, 2], 2, 4, 4),
    Cut("ours ended earlier than the leader's", [1, 1, 2, 2], 1, 3, 2),
    Cut("an epoch that we do not know: cut to the end of the one below", [1, 1, 3, 3], 2, 4, 2),
    Cut("an epoch below all that we know: nothing of ours is older", [4, 4], 2, 1, 0),
    Cut("an epoch above all that we know", [1, 1], 5, 1, 1),
    Cut("the leader does not know: stay", [1, 1, 1], 1, -1, 2, asked_from=2),
    Cut("no epoch is told", [1, 1, 1], -1, 2, 2),
    Cut("never beyond our end", [1, 1], 1, 100, 2),
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_where_a_follower_cuts(broker, cut):
    broker.order(1, (1,), epoch=cut.ours[0])
    log = write_epochs(broker, cut.ours).log
    asked = len(cut.ours) if cut.asked_from < 0 else cut.asked_from
    assert truncation_offset(log, LeaderEpoch(cut.epoch), Offset(cut.end), Offset(asked)) == cut.expected


class Answer(NamedTuple):
    name: str
    leader: list[int]
    offset: int
    last_epoch: int
    expected: tuple[int, int] | Error | None  # diverging (epoch, end), an error, or agreement


ANSWERS = [
    Answer("same epoch, nothing beyond the leader", [1, 1, 2, 2], 4, 2, None),
    Answer("behind, same epoch", [1, 1, 2, 2], 1, 1, None),
    Answer("at the end of an earlier epoch", [1, 1, 2, 2], 2, 1, None),
    Answer("more of an earlier epoch than the leader", [1, 1, 2, 2], 3, 1, (1, 2)),
    Answer("an epoch that the leader never had", [1, 1, 3, 3], 4, 2, (1, 2)),
    Answer("more than the leader of its own epoch", [1, 1], 5, 1, (1, 2)),
    Answer("an epoch from the future", [1, 1], 2, 9, Error.OFFSET_OUT_OF_RANGE),
    Answer("no epoch told, beyond the end", [1, 1], 5, -1, Error.OFFSET_OUT_OF_RANGE),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_what_a_leader_answers(broker, answer):
    broker.order(1, (1,), epoch=answer.leader[0])
    partition = write_epochs(broker, answer.leader)
    before = partition.leader.remotes[2].log_end_offset
    call = broker.fetch(answer.offset, follower=2, last_epoch=answer.last_epoch, max_wait_ms=0)
    data = partitions_of(call)[0]
    if isinstance(answer.expected, Error):
        assert data.error_code == answer.expected
    elif answer.expected is None:
        assert data.diverging_epoch.end_offset == -1
        assert partition.leader.remotes[2].log_end_offset == answer.offset
        return
    else:
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == answer.expected
        assert not data.records
    # Diverged records do not count, neither for the ISR nor for the high watermark.
    assert partition.leader.remotes[2].log_end_offset == before


def test_below_the_log_start_is_out_of_range_whatever_the_epochs_say(broker):
    broker.order(1, (1,), epoch=1)
    partition = write_epochs(broker, [1, 1, 1, 1])
    partition.log.advance_high_watermark(4)
    partition.log.advance_log_start(3)
    call = broker.fetch(1, follower=2, last_epoch=1)
    assert partitions_of(call)[0].error_code == Error.OFFSET_OUT_OF_RANGE


def test_a_parked_follower_is_told_of_a_divergence_at_once(broker):
    broker.order(1, (1,), epoch=1)
    write_epochs(broker, [1, 1])
    call = broker.fetch(2, follower=2, last_epoch=1)
    assert not call.responses
    broker.order(1, (1,), epoch=3)
    assert call.responses
