"""Replicas that the command line moves between the log directories of their brokers."""

import json

import pytest
import trio
import trio.testing

from ottla.client.admin import LogDirectory, ReplicaOnDisk
from ottla.client.errors import BrokerUnreachable, refusal
from ottla.commands.reassignment.directory_moves import (
    MoveState,
    Place,
    Replica,
    announce,
    begin,
    cancel_directories,
    follow_directories,
)
from ottla.commands.reassignment.plan_file import read_directories
from ottla.commands.terminal.failure import CommandError
from wire.errors import Error
from wire.types import TopicPartition

A0 = TopicPartition("a", 0)
AT_1, AT_2 = Replica(A0, 1), Replica(A0, 2)


class FakeAdmin:
    """Brokers with two directories each; a move completes after some polls."""

    def __init__(self, current, looks=3):
        self.current = dict(current)
        self.future = {}
        self.looks = looks
        self.dead = set()
        self.asked = []
        self.answers = {}

    async def describe_log_dirs(self, broker_id, topics):
        await trio.lowlevel.checkpoint()
        if broker_id in self.dead:
            raise BrokerUnreachable("dead")
        self.looks -= 1
        if self.looks < 0:
            self.current |= self.future
            self.future.clear()
        return [
            LogDirectory(
                path,
                None,
                -1,
                -1,
                tuple(
                    ReplicaOnDisk(replica.partition.topic, replica.partition.partition, 1, 0, is_future)
                    for places, is_future in ((self.current, False), (self.future, True))
                    for replica, there in places.items()
                    if there == path and replica.broker == broker_id and replica.partition.topic in topics
                ),
            )
            for path in ("/x", "/y")
        ]

    async def alter_replica_log_dirs(self, targets):
        await trio.lowlevel.checkpoint()
        wanted = {Replica(*key): path for key, path in targets.items()}
        self.asked.append(wanted)
        found = {}
        for replica, path in wanted.items():
            errors = self.answers.get(replica) or [Error.NONE]
            error = errors.pop(0)
            found[replica] = None if error is Error.NONE else refusal(error)
            self.future.pop(replica, None)
            if error is Error.NONE and self.current[replica] != path:
                self.future[replica] = path
        return found


def run(function, *arguments):
    return trio.run(function, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("place", "state"),
    [
        (Place(), MoveState.MISSING),
        (Place("/x"), MoveState.ELSEWHERE),
        (Place("/y"), MoveState.DONE),
        (Place("/x", "/y"), MoveState.MOVING),
        (Place("/x", "/z"), MoveState.MOVING_ELSEWHERE),
    ],
)
def test_states(place, state):
    assert place.state("/y") is state


def test_directories_of_a_file(tmp_path):
    def read(log_dirs):
        path = tmp_path / "file.json"
        entry = {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": log_dirs}
        path.write_text(json.dumps({"partitions": [entry]}))
        return read_directories(path)

    assert read(["any", "/y"]) == {AT_2: "/y"}
    assert read(["any", "any"]) == {}
    assert read(None) == {}
    for wrong, reason in (
        (["/y"], "not one for each"),
        ("/y", "not one"),
        (["any", "y"], "no absolute path"),
    ):
        with pytest.raises(CommandError, match=reason):
            read(wrong)


def test_moves_are_followed_to_their_end():
    admin = FakeAdmin({AT_1: "/x", AT_2: "/x"})
    wanted = {AT_1: "/y", AT_2: "/x"}
    run(begin, admin, wanted, 10)
    assert run(follow_directories, admin, wanted) == {AT_1: MoveState.DONE, AT_2: MoveState.DONE}


def test_a_replica_that_comes_later_is_asked_for_again():
    admin = FakeAdmin({AT_1: "/x", AT_2: "/x"})
    admin.answers[AT_2] = [Error.REPLICA_NOT_AVAILABLE] * 3
    wanted = {AT_1: "/y", AT_2: "/y"}
    run(announce, admin, wanted)
    run(begin, admin, wanted, 10)
    assert admin.asked == [wanted, wanted, {AT_2: "/y"}, {AT_2: "/y"}]


def test_one_that_never_comes_is_told():
    admin = FakeAdmin({AT_1: "/x"})
    admin.answers[AT_1] = [Error.REPLICA_NOT_AVAILABLE] * 1000
    with pytest.raises(CommandError, match="not begun to move in time: a-0 at broker 1"):
        run(begin, admin, {AT_1: "/y"}, 5)


def test_a_refusal_is_told():
    admin = FakeAdmin({AT_1: "/x"})
    admin.answers[AT_1] = [Error.LOG_DIR_NOT_FOUND]
    with pytest.raises(CommandError, match="a-0 at broker 1: "):
        run(announce, admin, {AT_1: "/nowhere"})


def test_cancelled_moves_go_back():
    admin = FakeAdmin({AT_1: "/x", AT_2: "/x"}, looks=100)
    run(begin, admin, {AT_1: "/y", AT_2: "/y"}, 10)
    admin.dead = {2}
    assert run(cancel_directories, admin, {AT_1: "/y", AT_2: "/y"}) == [AT_1]
    assert admin.asked[-1] == {AT_1: "/x"}
    assert admin.future == {AT_2: "/y"}
