"""``ottla groups --zookeeper`` and the offset checker, on groups of old consumers in a real ensemble."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from ottla.client import connect
from ottla.commands.groups.consumer_offset_checker import command as checker
from ottla.commands.groups.groups import command as groups
from ottla.old_consumer import Connector, OldConsumerSettings, Reset
from tests.conftest import Topics

GROUP = "old-billing"
TOPIC = "old-orders"


@pytest.fixture(scope="module")
def zookeeper(cluster, make_topics: Topics) -> str:
    """An ensemble with a topic of two partitions, ten records each, of which a group has read twelve."""
    make_topics.create([TOPIC], 2)

    async def story() -> None:
        async with connect(cluster.bootstrap_servers) as kafka, kafka.producer() as producer:
            for number in range(20):
                await producer.post(TOPIC, b"%d" % number, partition=number % 2)
        async with Connector(settings(cluster.zookeeper)) as end:
            (stream,) = (await end.create_message_streams({TOPIC: 1}))[TOPIC]
            for _ in range(12):
                await anext(stream)

    trio.run(story)
    return cluster.zookeeper


def settings(zookeeper: str) -> OldConsumerSettings:
    return OldConsumerSettings(
        group_id=GROUP, zookeeper_connect=zookeeper, auto_offset_reset=Reset.SMALLEST, rebalance_backoff=0.1
    )


@pytest.fixture
def run(zookeeper: str) -> Callable[..., Any]:
    def call(*arguments: str, code: int = 0, command=groups) -> Any:
        done = CliRunner().invoke(command, ["--zookeeper", zookeeper, *arguments])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if "--json" in arguments and code == 0 else done.output

    return call


def offsets(described: list[dict[str, Any]]) -> list[int]:
    return [each["current_offset"] for each in sorted(described, key=lambda each: each["partition"])]


def test_a_group_in_zookeeper_is_shown_reset_migrated_and_deleted(zookeeper: str, run, cluster) -> None:
    assert GROUP in run("--list").split()
    described = run("--describe", "--group", GROUP, "--json")
    assert sum(offsets(described)) == 12
    assert [each["lag"] for each in described] == [10 - offset for offset in offsets(described)]
    run("--reset-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0", "--to-offset", "4", "--execute")
    run("--reset-offsets", "--group", GROUP, "--topic", f"{TOPIC}:1", "--to-offset", "7", "--execute")
    assert offsets(run("--describe", "--group", GROUP, "--json")) == [4, 7]

    before = run("--migrate-offsets", "--group", GROUP, "--json")
    assert not before["executed"]
    assert [(each["zookeeper"], each["kafka"]) for each in before["offsets"]] == [(4, None), (7, None)]
    assert "migrated" in run("--migrate-offsets", "--group", GROUP, "--execute")
    in_kafka = CliRunner().invoke(
        groups, ["--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", GROUP, "--json"]
    )
    assert offsets(json.loads(in_kafka.stdout)) == [4, 7]
    # A position that is already farther in Kafka stays.
    run("--reset-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0", "--to-offset", "2", "--execute")
    run("--reset-offsets", "--group", GROUP, "--topic", f"{TOPIC}:1", "--to-offset", "9", "--execute")
    done = run("--migrate-offsets", "--group", GROUP, "--execute", "--json")
    assert [each["after"] for each in done["offsets"]] == [4, 9]

    found = run("--group", GROUP, command=checker).splitlines()
    assert found[0].split() == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
    assert [line.split() for line in found[1:]] == [
        [GROUP, TOPIC, "0", "4", "10", "6", "none"],
        [GROUP, TOPIC, "1", "9", "10", "1", "none"],
    ]

    run("--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:1")
    assert offsets(run("--describe", "--group", GROUP, "--json")) == [2]
    run("--delete", "--group", GROUP)
    assert GROUP not in run("--list").split()
    assert "does not exist" in run("--describe", "--group", GROUP, code=1)
    assert "does not exist" in run("--group", GROUP, command=checker, code=1)


def test_an_active_group_is_shown_and_left_alone(zookeeper: str, run) -> None:
    async def story() -> None:
        async with Connector(settings(zookeeper)) as end:
            await end.create_message_streams({TOPIC: 1})
            await trio.to_thread.run_sync(look, end.consumer_id)

    def look(consumer: str) -> None:
        (member,) = run("--describe", "--group", GROUP, "--members", "--json")
        assert member["consumer_id"] == consumer
        assert [each["partition"] for each in member["assignment"]] == [0, 1]
        (state,) = run("--describe", "--group", GROUP, "--state", "--json")
        assert (state["state"], state["members"]) == ("Stable", 1)
        checked = run("--group", GROUP, "--json", command=checker)
        assert {each["owner"] for each in checked["partitions"]} == {f"{consumer}-0"}
        reset = ("--reset-offsets", "--group", GROUP, "--all-topics", "--to-earliest", "--execute")
        for arguments in (
            reset,
            ("--delete", "--group", GROUP),
            ("--migrate-offsets", "--group", GROUP, "--execute"),
        ):
            assert consumer in run(*arguments, code=1)

    trio.run(story)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--list"], 2, "'--bootstrap-server', or '--zookeeper'"),
        (["--bootstrap-server", "x:1", "--migrate-offsets", "--group", "g"], 2, "needs --zookeeper"),
        (["--zookeeper", "127.0.0.1:1", "--list"], 1, "no ZooKeeper answers at 127.0.0.1:1"),
        (["--zookeeper", "{zookeeper}/typo", "--list"], 1, "is the chroot right?"),
        (
            ["--zookeeper", "{zookeeper}", "--migrate-offsets", "--group", "nobody"],
            1,
            "does not exist in ZooKeeper",
        ),
    ],
)
def test_bad_input_gets_one_line(zookeeper: str, arguments: list[str], code: int, text: str) -> None:
    done = CliRunner().invoke(groups, [each.format(zookeeper=zookeeper) for each in arguments])
    assert done.exit_code == code, done.output
    assert text in done.output
    assert "Traceback" not in done.output
