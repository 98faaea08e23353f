"""Reassignments: their files, their throttles and the throttle keeper, their progress."""

import itertools
import json

import pytest
import trio
import trio.testing
from click.testing import CliRunner

from ottla.client.admin import (
    ConfigOperation,
    ConfigSource,
    ConfigValue,
    LogDirectory,
    Reassignment,
    ReplicaOnDisk,
)
from ottla.client.admin.descriptions import ConfigResource, ResourceKind
from ottla.client.errors import refusal
from ottla.commands.reassignment.plan_file import as_text, read_targets, read_topics_to_move
from ottla.commands.reassignment.progress import RateMeter, duration_text, follow
from ottla.commands.reassignment.reassign_partitions import command
from ottla.commands.reassignment.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Throttle,
    ensure_rate,
    set_throttle,
    throttle_of,
)
from ottla.commands.reassignment.throttle_keeper import clear_rates_of_ended_moves, keep
from ottla.commands.terminal.failure import CommandError
from wire.errors import Error
from wire.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def write(tmp_path):
    def write(value):
        path = tmp_path / "file.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def entry(topic="a", partition=0, replicas=(1, 2), **rest):
    return {"topic": topic, "partition": partition, "replicas": list(replicas), **rest}


def test_a_file_is_read_as_it_is_written(write):
    targets = {A0: (1, 2), A1: (2, 3)}
    assert read_targets(write(as_text(targets))) == targets


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no json", "is no JSON"),
        ([], "no JSON object"),
        ({"version": 2, "partitions": [entry()]}, "version 2"),
        ({"version": 1}, "no list of objects under 'partitions'"),
        ({"partitions": []}, "no list"),
        ({"partitions": [{"topic": "a"}]}, "names no topic and partition"),
        ({"partitions": [{"topic": "a", "partition": 0}]}, "a-0 has no 'replicas'"),
        ({"partitions": [entry(), entry()]}, "more than once: a-0"),
        ({"partitions": [entry(replicas=[])]}, "no list of broker ids"),
        ({"partitions": [entry(replicas=[1, 1])]}, "a broker stands twice"),
    ],
)
def test_a_wrong_file_is_refused_with_its_reason(write, value, reason):
    with pytest.raises(CommandError, match=reason):
        read_targets(write(value))


def test_topics_to_move(write):
    assert read_topics_to_move(write({"topics": [{"topic": "a"}, {"topic": "b"}]})) == ["a", "b"]
    with pytest.raises(CommandError, match="twice"):
        read_topics_to_move(write({"topics": [{"topic": "a"}, {"topic": "a"}]}))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "exactly one of"),
        (["--list", "--verify"], "exactly one of"),
        (["--verify"], "--verify needs --reassignment-json-file"),
        (["--plan"], "exactly one of --add-brokers"),
        (["--plan", "--rebalance", "--add-brokers", "1"], "exactly one of --add-brokers"),
        (["--list", "--throttle", "1"], "--throttle does not go with --list"),
        (["--list", "--replica-alter-log-dirs-throttle", "1"], "does not go with --list"),
    ],
)
def test_options_that_do_not_fit(arguments, reason):
    result = CliRunner().invoke(command, ["--bootstrap-server", "h:1", *arguments])
    assert result.exit_code == 2
    assert reason in result.output.replace("\n", " ")


def test_a_throttle_names_sources_as_leaders_and_new_replicas_as_followers():
    throttle = throttle_of({A0: (1, 2), A1: (1, 2), B0: (3,)}, {A0: (2, 3), A1: (2, 1), B0: (4,)}, 1000)
    assert throttle == Throttle(
        1000,
        (1, 2, 3, 4),
        {"a": ("0:1", "0:2"), "b": ("0:3",)},
        {"a": ("0:3",), "b": ("0:4",)},
    )
    assert Throttle.from_text(throttle.to_text()) == throttle


def test_an_order_that_changes_needs_no_throttle():
    assert throttle_of({A0: (1, 2)}, {A0: (2, 1)}, 1000) is None


class FakeAdmin:
    """A cluster in memory: its configurations, and its reassignments, which end one after another."""

    def __init__(self, moves=(), rounds=3):
        self.configs = {}
        self.moves = dict(moves)
        self.rounds = rounds
        self.gone = set()
        self.history = []

    async def list_reassignments(self):
        await trio.lowlevel.checkpoint()
        self.rounds -= 1
        self.history.append({key: dict(values) for key, values in self.configs.items()})
        return self.moves if self.rounds > 0 else {}

    async def alter_configs(self, changes):
        await trio.lowlevel.checkpoint()
        for resource, ones in changes.items():
            if resource in self.gone:
                raise refusal(Error.UNKNOWN_TOPIC_OR_PARTITION)
            stored = self.configs.setdefault(resource, {})
            for change in ones:
                present = [part for part in stored.get(change.name, "").split(",") if part]
                given = (change.value or "").split(",")
                match change.operation:
                    case ConfigOperation.SET:
                        stored[change.name] = change.value
                    case ConfigOperation.DELETE:
                        stored.pop(change.name, None)
                    case ConfigOperation.APPEND:
                        stored[change.name] = ",".join(dict.fromkeys(present + given))
                    case ConfigOperation.SUBTRACT:
                        stored[change.name] = ",".join(part for part in present if part not in given)

    async def describe_configs(self, resources):
        await trio.lowlevel.checkpoint()
        return {
            resource: [
                ConfigValue(name, value, SOURCES[resource.kind], False, False)
                for name, value in self.configs.get(resource, {}).items()
            ]
            for resource in resources
        }

    async def describe_log_dirs(self, broker_id, topics):
        await trio.lowlevel.checkpoint()
        size = 1000 if broker_id == 1 else 1000 - 100 * self.rounds
        return [
            LogDirectory(
                "/",
                None,
                -1,
                -1,
                tuple(ReplicaOnDisk(t, p, size, 0, False) for t in topics for p in topics[t]),
            )
        ]


SOURCES = {
    ResourceKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceKind.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
}
TOPIC = ConfigResource(ResourceKind.TOPIC, "a")
BROKER = ConfigResource(ResourceKind.BROKER, "1")
THROTTLE = Throttle(1000, (1, 2), {"a": ("0:1",)}, {"a": ("0:2",)})


def run(function, *arguments):
    return trio.run(function, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_keeper_takes_the_throttle_away_when_the_moves_are_over():
    admin = FakeAdmin({A0: Reassignment((1, 2), (2,), ())})
    admin.configs[TOPIC] = {LEADER_REPLICAS: "7:7"}

    async def main():
        await set_throttle(admin, THROTTLE)
        await keep(admin, [A0], THROTTLE)

    run(main)
    assert admin.history[0][TOPIC] == {LEADER_REPLICAS: "7:7,0:1", FOLLOWER_REPLICAS: "0:2"}
    assert admin.history[0][BROKER] == {
        LEADER_RATE: "1000",
        FOLLOWER_RATE: "1000",
    }
    assert admin.configs[TOPIC] == {LEADER_REPLICAS: "7:7"}  # another's entry stays
    assert not admin.configs[BROKER]
    assert admin.history[1][TOPIC][FOLLOWER_REPLICAS] == "0:2"  # while the move goes on it is throttled


def test_rates_stay_while_others_are_moved():
    admin = FakeAdmin({B0: Reassignment((1, 2), (2,), ())}, rounds=4)

    async def main():
        await set_throttle(admin, THROTTLE)
        await keep(admin, [A0], THROTTLE)

    run(main)
    rates = [LEADER_RATE in seen[BROKER] for seen in admin.history]
    lists = [LEADER_REPLICAS in seen[TOPIC] for seen in admin.history]
    assert lists == [True, False, False, False, False]
    assert rates == [True, True, True, True, False]
    assert not admin.configs[BROKER]


class InTurns:
    """A cluster that takes the calls of two clients in a given order: "k" for the keeper, "c" for a command."""

    def __init__(self, order, rates):
        self.admin = FakeAdmin(rounds=1_000_000)
        self.admin.configs[BROKER] = dict(rates)
        self.order = list(order)
        self.moved = trio.Condition()

    def of(self, asker):
        return Asker(self, asker)

    async def take_turn(self, asker):
        async with self.moved:
            while asker in self.order and self.order[0] != asker:
                await self.moved.wait()
            if self.order and self.order[0] == asker:
                del self.order[0]
            self.moved.notify_all()

    async def leave(self, asker):
        async with self.moved:
            self.order = [each for each in self.order if each != asker]
            self.moved.notify_all()


class Asker:
    def __init__(self, turns, name):
        self.turns = turns
        self.name = name

    def __getattr__(self, method):
        async def call(*arguments):
            await self.turns.take_turn(self.name)
            return await getattr(self.turns.admin, method)(*arguments)

        return call


@pytest.mark.parametrize("leftover", [{}, {LEADER_RATE: "7", FOLLOWER_RATE: "7"}])
def test_moves_that_begin_while_rates_are_taken_away_are_throttled(leftover):
    throttle = Throttle(1000, (1,), {"a": ("0:1",)}, {"a": ("0:2",)})

    async def main(order):
        turns = InTurns(order, leftover)

        async def keeper():
            await clear_rates_of_ended_moves(turns.of("k"), throttle.brokers, 1.0)
            await turns.leave("k")

        async def command(nursery):
            admin = turns.of("c")
            await set_throttle(admin, throttle)
            await turns.take_turn("c")
            turns.admin.moves[A0] = Reassignment((1, 2), (2,), ())
            await ensure_rate(admin, throttle)
            await turns.leave("c")
            await trio.sleep(10)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper)
            nursery.start_soon(command, nursery)
        return turns.admin.configs[BROKER]

    for places in itertools.combinations(range(12), 5):
        order = ["c" if place in places else "k" for place in range(12)]
        assert set(run(main, order)) == {LEADER_RATE, FOLLOWER_RATE}, order


def test_a_topic_that_was_deleted_needs_no_clearing():
    admin = FakeAdmin({}, rounds=0)
    admin.gone.add(TOPIC)
    run(keep, admin, [A0], THROTTLE)


def test_progress_tells_bytes_rate_and_end():
    admin = FakeAdmin({A0: Reassignment((1, 2), (2,), (1,))}, rounds=6)
    progress_lines = []
    run(follow, admin, frozenset([A0]), progress_lines.append)
    first, *_, before_last, last = progress_lines
    assert (first.done, first.total_bytes, first.left_bytes, first.rate) == (0, 1000, 500, None)
    assert before_last.left_bytes == 100
    assert before_last.rate == pytest.approx(200)
    assert before_last.seconds_left == pytest.approx(0.5)
    assert (last.done, last.left_bytes, last.total_bytes) == (1, 0, 1000)
    assert before_last.text() == "0 of 1 partitions, 900 B of 1000 B, 200 B/s, 0 s left"


def test_a_rate_is_that_of_the_last_seconds():
    meter = RateMeter()
    assert meter.observe(0.0, 0) is None
    for second in range(1, 31):
        rate = meter.observe(float(second), 0 if second <= 20 else (second - 20) * 50)
    assert rate == pytest.approx(50)


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "7 s"), (61, "1 min 1 s"), (7384, "2 h 3 min")])
def test_durations(seconds, text):
    assert duration_text(seconds) == text
