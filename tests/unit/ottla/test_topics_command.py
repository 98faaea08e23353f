"""kafka-topics' flags: valid combinations, and how names, assignments and settings are parsed."""

import pytest
from click.testing import CliRunner

from ottla.commands.topics.topics import command, matching, parse_configs, parse_replica_assignment

SERVER = ["--bootstrap-server", "127.0.0.1:1"]

CONFLICTS = {
    "no action": [],
    "two actions": ["--list", "--describe"],
    "create without topic": ["--create"],
    "alter without topic": ["--alter", "--partitions", "3"],
    "alter without partitions": ["--alter", "--topic", "t"],
    "delete without topic": ["--delete"],
    "config with alter": ["--alter", "--topic", "t", "--partitions", "3", "--config", "a=b"],
    "partitions with list": ["--list", "--partitions", "3"],
    "replication factor with alter": [
        "--alter",
        "--topic",
        "t",
        "--partitions",
        "3",
        "--replication-factor",
        "2",
    ],
    "assignment with partitions": [
        "--create",
        "--topic",
        "t",
        "--replica-assignment",
        "0:1",
        "--partitions",
        "1",
    ],
    "assignment with factor": [
        *("--create", "--topic", "t", "--replica-assignment", "0:1"),
        *("--replication-factor", "1"),
    ],
    "if-exists with create": ["--create", "--topic", "t", "--if-exists"],
    "if-not-exists with delete": ["--delete", "--topic", "t", "--if-not-exists"],
    "two choices": ["--describe", "--under-replicated-partitions", "--unavailable-partitions"],
    "partitions and overrides": ["--describe", "--unavailable-partitions", "--topics-with-overrides"],
    "choice with list": ["--list", "--unavailable-partitions"],
    "no partitions": ["--create", "--topic", "t", "--partitions", "0"],
    "topic id with list": ["--list", "--topic-id", "x"],
    "exclude-internal with delete": ["--delete", "--topic", "t", "--exclude-internal"],
}


@pytest.mark.parametrize("arguments", CONFLICTS.values(), ids=CONFLICTS.keys())
def test_flags_that_do_not_go_together(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, [*SERVER, *arguments])
    assert result.exit_code == 2
    assert "Error:" in result.output


def test_a_server_is_needed() -> None:
    result = CliRunner().invoke(command, ["--list"])
    assert result.exit_code == 2
    assert "--bootstrap-server" in result.output


def test_a_server_that_is_no_address() -> None:
    result = CliRunner().invoke(command, ["--bootstrap-server", "localhost", "--list"])
    assert result.exit_code == 1
    assert "'localhost' is not HOST:PORT" in result.output


def test_replica_assignments() -> None:
    assert parse_replica_assignment("0:1:2,1:2:0") == {0: [0, 1, 2], 1: [1, 2, 0]}
    assert parse_replica_assignment("5") == {0: [5]}
    for text, what in {
        "0:x": "BROKER",
        "0:0": "twice",
        "0:1,2": "same number",
        "": "BROKER",
        "0,,1": "BROKER",
    }.items():
        with pytest.raises(ValueError, match=what):
            parse_replica_assignment(text)


def test_configs() -> None:
    assert parse_configs(["a.b = c", "d=", "e=f=g"]) == {"a.b": "c", "d": "", "e": "f=g"}
    for text in ("a", "=b"):
        with pytest.raises(ValueError, match="NAME=VALUE"):
            parse_configs([text])


def test_topic_expressions() -> None:
    names = ["orders", "orders-eu", "users", "a.b", "axb"]
    assert matching("orders", names) == ["orders"]
    assert matching("orders.*", names) == ["orders", "orders-eu"]
    assert matching("users, orders", names) == ["orders", "users"]
    assert matching('"users"', names) == ["users"]
    assert matching(r"a\.b", names) == ["a.b"]
    with pytest.raises(ValueError, match="regular expression"):
        matching("(", names)
