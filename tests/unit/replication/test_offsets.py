"""Offsets by time and by name, ends of epochs, and deleting records."""

from typing import Any, NamedTuple

import pytest

from cluster.handlers import list_offsets, offset_for_leader_epoch
from tests.unit.handlers.calls import KeptCall
from tests.unit.replication.in_memory import P0, TOPIC, batch_at
from wire.errors import Error
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.fixture
def leader(broker):
    """A log with records at 100, 200 and 300 ms, of which the last is above the high watermark."""
    broker.lead(isr=(1, 2), replicas=(1, 2))
    for timestamp in (100, 200, 300):
        broker.replicas.append([(P0, batch_at(timestamp))], 1, 0, lambda results: None)
    broker.fetch(2, follower=2)
    return broker


def ask(broker, timestamp, *, version=9, replica=-1, epoch=-1, committed=False, times=1):
    request = ListOffsetsRequest(
        replica_id=replica,
        isolation_level=int(committed),
        topics=[
            ListOffsetsTopic(
                name=TOPIC,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=0, current_leader_epoch=epoch, timestamp=timestamp, max_num_offsets=10
                    )
                ]
                * times,
            )
        ],
    )
    call = KeptCall(broker, request, version)
    call.respond(broker.run(list_offsets.handle, call))
    return call.responses[0].topics[0].partitions[0]


class Case(NamedTuple):
    name: str
    timestamp: int
    offset: int
    rest: dict[str, Any] = {}  # noqa: RUF012 - never changed


@pytest.mark.parametrize(
    "case",
    [
        Case("the first", -2, 0),
        Case("the last that consumers see", -1, 2),
        Case("the last that followers see", -1, 3, {"replica": 2}),
        Case("committed", -1, 2, {"committed": True}),
        Case("by time", 150, 1),
        Case("exactly at a time", 200, 1),
        Case("too young: none", 301, -1),
        Case("above the high watermark: none", 300, -1),
        Case("above it, for a follower", 300, 2, {"replica": 2}),
        Case("the youngest is above the high watermark: none", -3, -1),
        Case("the youngest, for a follower", -3, 2, {"replica": 2}),
        Case("local start", -4, 0),
        Case("nothing is in a remote tier", -5, -1),
    ],
    ids=lambda case: case.name,
)
def test_offsets(leader, case):
    answer = ask(leader, case.timestamp, **case.rest)
    assert (answer.error_code, answer.offset) == (0, case.offset)


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 99)])
def test_named_offsets_need_their_version(leader, timestamp, since):
    for version in range(1, 10):
        expected = 0 if version >= since else Error.UNSUPPORTED_VERSION
        assert ask(leader, timestamp, version=version).error_code == expected


def test_a_partition_asked_for_twice_is_refused(leader):
    assert ask(leader, -1, times=2).error_code == Error.INVALID_REQUEST


def test_epochs_of_the_asker(leader):
    assert ask(leader, -1, epoch=0).error_code == Error.FENCED_LEADER_EPOCH
    assert ask(leader, -1, epoch=2).error_code == Error.UNKNOWN_LEADER_EPOCH
    assert ask(leader, -1, epoch=1).leader_epoch == 1


def test_only_the_leader_answers_but_for_debuggers(leader):
    leader.follow(2)
    assert ask(leader, -1).error_code == Error.NOT_LEADER_OR_FOLLOWER
    assert ask(leader, -1, replica=-2).error_code == Error.NONE


@pytest.mark.parametrize(
    ("version", "error"), [(5, Error.OFFSET_NOT_AVAILABLE), (4, Error.LEADER_NOT_AVAILABLE)]
)
def test_a_new_leader_does_not_tell_what_it_cannot_know_yet(leader, version, error):
    leader.lead(isr=(1, 2), replicas=(1, 2))  # the epoch starts at 3, the high watermark is 2
    assert ask(leader, -1, version=version).error_code == error
    assert ask(leader, 300, version=version).error_code == error
    assert ask(leader, 100, version=version).offset == 0
    assert ask(leader, -2, version=version).offset == 0
    leader.fetch(3, follower=2)
    assert ask(leader, -1, version=version).offset == 3


@pytest.mark.parametrize(("timestamp", "offsets"), [(-1, [2, 0]), (-2, [0]), (0, [])])
def test_version_0_gives_segment_starts(leader, timestamp, offsets):
    leader.disk.set_modified_ms(leader.partition.log.active_segment.path(".log"), 5000)
    answer = ask(leader, timestamp, version=0)
    assert (answer.error_code, list(answer.old_style_offsets)) == (0, offsets)


def test_ends_of_leader_epochs(leader):
    leader.lead(isr=(1, 2), replicas=(1, 2), epoch=5)
    leader.produce(1)

    def end(epoch, current=-1):
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=0, current_leader_epoch=current, leader_epoch=epoch
                        )
                    ],
                )
            ]
        )
        call = KeptCall(leader, request, 4)
        offset_for_leader_epoch.begin(call)
        answer = call.responses[0].topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end(1) == (0, 1, 3)
    assert end(4) == (0, 1, 3)
    assert end(5) == (0, 5, 4)
    assert end(6) == (0, -1, -1)
    assert end(5, current=4)[0] == Error.FENCED_LEADER_EPOCH
    assert end(5, current=6)[0] == Error.UNKNOWN_LEADER_EPOCH
    leader.follow(2)
    assert end(5)[0] == Error.NOT_LEADER_OR_FOLLOWER


# DeleteRecords


def delete(broker, offset, key=P0):
    answers = []
    broker.replicas.delete_records({key: offset}, 1000, answers.append)
    return answers


def test_deleting_waits_for_live_replicas(leader):
    answers = delete(leader, 1)
    assert not answers
    assert leader.partition.log.log_start_offset == 1
    leader.fetch(2, follower=2, log_start=1)
    assert answers == [{P0: (Error.NONE, 1)}]


def test_deleting_does_not_wait_for_dead_ones(leader):
    leader.fetch(2, follower=2)
    answers = delete(leader, 1)
    leader.live(1)
    leader.partition.leader.reconsider(leader.clock.monotonic())
    assert answers == [{P0: (Error.NONE, 1)}]


def test_deleting_everything_that_consumers_see(leader):
    leader.live(1)
    assert delete(leader, -1) == [{P0: (Error.NONE, 2)}]


def test_deleting_times_out_with_what_is_reached(leader):
    leader.fetch(2, follower=2)
    answers = delete(leader, 1)
    leader.timer.expire_all()
    assert answers == [{P0: (Error.REQUEST_TIMED_OUT, 0)}]


@pytest.mark.parametrize("offset", [3, 99, -7])
def test_deleting_beyond_the_high_watermark_is_refused(leader, offset):
    assert delete(leader, offset)[0][P0].error is Error.OFFSET_OUT_OF_RANGE


def test_a_compacted_topic_is_not_deleted_from(broker):
    broker.zookeeper.configs[TOPIC] = {"cleanup.policy": "compact"}
    broker.lead(isr=(1,), replicas=(1,))
    assert delete(broker, 0)[0][P0].error is Error.POLICY_VIOLATION


def test_losing_the_leadership_ends_a_deletion(leader):
    answers = delete(leader, 1)
    leader.follow(2)
    assert answers[0][P0].error is Error.NOT_LEADER_OR_FOLLOWER
