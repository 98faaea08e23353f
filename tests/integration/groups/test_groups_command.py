"""``ottla groups`` on a running cluster: what it shows of a group, and what it changes."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.commands.groups.groups import command
from ottla.testing import Cluster
from tests.conftest import Topics

SCRIPT = Path(__file__).parents[3] / "scripts" / "consumer-groups"
RECORDS = 100


class GroupsCommand:
    """The command, against one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.server = ("--bootstrap-server", bootstrap)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run it, and return all that it prints; with ``--json`` or ``--export`` only standard output."""
        done = CliRunner().invoke(command, [*self.server, *arguments])
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.output}"
        return done.stdout if "--json" in arguments or "--export" in arguments else done.output

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run it with ``--json``, and return the decoded output."""
        return json.loads(self.run(*arguments, "--json", code=code))


@pytest.fixture
def groups(quick_cluster: Cluster) -> GroupsCommand:
    return GroupsCommand(quick_cluster.bootstrap_servers)


@pytest.fixture
def topic(quick_cluster: Cluster, make_topics: Topics) -> str:
    """A topic with records in both of its partitions."""
    name = f"bills-{uuid4().hex[:8]}"
    make_topics.create([name], 2)
    producer = Producer({"bootstrap.servers": quick_cluster.bootstrap_servers, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=number % 2, timestamp=1_000 + number)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def consumer(quick_cluster: Cluster, topic: str) -> Iterator[Consumer]:
    """A member of a group of its own, its partitions assigned, 20 records of each committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": quick_cluster.bootstrap_servers,
            "group.id": f"of-{topic}",
            "client.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    for _attempt in range(600):
        if consumer.poll(0.1) is not None:
            break
    assert len(consumer.assignment()) == 2
    consumer.commit(offsets=[TopicPartition(topic, p, 20) for p in range(2)], asynchronous=False)
    yield consumer
    consumer.close()


def test_an_active_group_is_shown_and_left_alone(
    groups: GroupsCommand, topic: str, consumer: Consumer
) -> None:
    group = f"of-{topic}"
    assert group in groups.json("--list")
    assert {"group": group, "state": "Stable", "type": "classic"} in groups.json(
        "--list", "--state", "stable"
    )
    rows = groups.json("--describe", "--group", group)
    assert [(r["partition"], r["current_offset"], r["log_end_offset"], r["lag"]) for r in rows] == [
        (0, 20, 50, 30),
        (1, 20, 50, 30),
    ]
    assert {row["client_id"] for row in rows} == {"billing"}
    table = groups.run("--describe", "--group", group, "--verbose")
    assert "Lag" in table
    assert "Epoch" in table
    (member,) = groups.json("--describe", "--group", group, "--members")
    assert [each["partition"] for each in member["assignment"]] == [0, 1]
    assert f"{topic}(0,1)" in groups.run("--describe", "--group", group, "--members", "--verbose")
    (state,) = groups.json("--describe", "--group", group, "--state")
    assert (state["state"], state["members"], state["assignment_strategy"]) == ("Stable", 1, "range")

    for arguments in (["--delete"], ["--reset-offsets", "--to-earliest", "--topic", topic, "--execute"]):
        refused = groups.run(*arguments, "--group", group, code=1)
        assert member["consumer_id"] in refused
        assert "billing" in refused
    # With all groups named, the others are reset.
    idle = f"idle-{topic}"
    groups.run("--reset-offsets", "--group", idle, "--topic", topic, "--to-offset", "5", "--execute")
    both = ("--reset-offsets", "--group", group, "--group", idle, "--all-topics", "--to-latest")
    assert member["consumer_id"] in groups.run(*both, "--execute", code=1)
    assert [row["lag"] for row in groups.json("--describe", "--group", idle)] == [0, 0]
    assert [row["lag"] for row in groups.json("--describe", "--group", group)] == [30, 30]
    (outcome,) = groups.json("--delete-offsets", "--group", group, "--topic", f"{topic}:0", code=1)
    assert outcome["error"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    consumer.poll(0)


def test_offsets_are_reset_first_in_words_then_in_deed(
    groups: GroupsCommand, topic: str, consumer: Consumer, tmp_path: Path
) -> None:
    consumer.close()
    group = f"of-{topic}"
    reset = ("--reset-offsets", "--group", group)

    def offsets() -> list[int]:
        return [row["current_offset"] for row in groups.json("--describe", "--group", group)]

    dry = groups.run(*reset, "--to-earliest", "--all-topics")
    assert "-20" in dry
    assert "Nothing was changed" in dry
    assert offsets() == [20, 20]
    ways = {
        ("--to-latest", "--all-topics"): [50, 50],
        ("--shift-by", "-10", "--topic", f"{topic}:1"): [50, 40],
        ("--to-offset", "7", "--topic", topic): [7, 7],
        ("--to-datetime", "1970-01-01T00:00:01.050", "--topic", topic): [25, 25],
        ("--by-duration", "P1D", "--topic", f"{topic}:0"): [50, 25],
        ("--to-current", "--all-topics"): [50, 25],
    }
    for way, expected in ways.items():
        done = groups.json(*reset, *way, "--execute")
        assert done["executed"] is True
        assert offsets() == expected, way
    file = tmp_path / "plan.csv"
    file.write_text(groups.run(*reset, "--to-earliest", "--topic", topic, "--export"))
    assert offsets() == [50, 25]
    groups.run(*reset, "--from-file", str(file), "--execute")
    assert offsets() == [0, 0]


def test_groups_and_offsets_are_deleted(groups: GroupsCommand, topic: str, consumer: Consumer) -> None:
    consumer.close()
    group = f"of-{topic}"
    (outcome,) = groups.json("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert outcome["error"] == "NONE"
    assert [row["partition"] for row in groups.json("--describe", "--group", group)] == [1]
    assert groups.json("--delete", "--group", group) == {"deleted": [group]}
    assert group not in groups.json("--list")
    gone = groups.run("--describe", "--group", group, code=1)
    assert "does not exist" in gone
    assert "Lag" not in gone
    groups.run("--delete", "--group", group, code=1)


def test_a_broker_tells_of_the_groups_that_it_coordinates(quick_cluster: Cluster, consumer: Consumer) -> None:
    coordinated = [each["groups"] for each in quick_cluster.view().descriptions.values()]
    assert len(coordinated) == 3
    assert sum(each["groups"]["Stable"] for each in coordinated) >= 1
    assert sum(each["offsets"] for each in coordinated) >= 2
    assert sorted(number for each in coordinated for number in each["partitions"]) == list(range(6))
    consumer.poll(0)


def test_the_script_is_the_command(groups: GroupsCommand) -> None:
    done = subprocess.run([str(SCRIPT), *groups.server, "--list", "--json"], capture_output=True, check=True)
    assert isinstance(json.loads(done.stdout), list)
