"""Quotas on the command line: the valid combinations, and what is printed of them."""

import json

import pytest
from click.testing import CliRunner

from ottla.commands.configs.client_quotas import (
    clients_as_json,
    completed_line,
    java_double,
    quota_lines,
    read_quotas,
)
from ottla.commands.configs.configs import command
from ottla.commands.terminal.failure import CommandError

SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1048576.0, "1048576.0"),
        (9999999.0, "9999999.0"),
        (10485760.0, "1.048576E7"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e300, "1.0E300"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (50.0, "50.0"),
        (123456789012345.0, "1.23456789012345E14"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_line_for_each_entity() -> None:
    found: list[tuple[dict[str, str | None], dict[str, float]]] = [
        ({"client-id": None, "user": "ann"}, {"producer_byte_rate": 1024.0, "request_percentage": 50.0}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
    ]
    assert quota_lines(found) == [
        "Quota configs for user-principal 'ann', the default client-id are producer_byte_rate=1024.0, "
        "request_percentage=50.0",
        "Quota configs for ip '10.0.0.1' are connection_creation_rate=5.0",
    ]
    shown = json.loads(clients_as_json(found, {"ann": {"SCRAM-SHA-512": 4096}}))
    assert shown["quotas"][1] == {
        "entity": {"ip": "10.0.0.1"},
        "quotas": {"connection_creation_rate": 5.0},
    }
    assert shown["scram"] == {"ann": {"SCRAM-SHA-512": 4096}}


def test_what_was_changed_is_named_as_kafka_names_it() -> None:
    assert completed_line([("users", "ann"), ("clients", "app")]) == "Completed updating config for user ann."
    assert completed_line([("ips", "")]) == "Completed updating default config for ips in the cluster."


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("users", {"connection_creation_rate": "5"}, "is no quota of such an entity"),
        ("ips", {"producer_byte_rate": "5"}, "is no quota of such an entity"),
        ("users", {"producer_byte_rate": "fast"}, "is a number"),
        ("users", {"producer_byte_rate": "nan"}, "is above 0"),
        ("users", {"producer_byte_rate": "0"}, "is above 0"),
    ],
)
def test_what_is_no_quota_is_refused(kind: str, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        read_quotas([(kind, "a")], settings)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--entity-type", "users", "--entity-type", "ips"), "only users and clients go together"),
        (("--entity-type", "users", "--entity-type", "users"), "given twice"),
        (("--entity-type", "users", "--entity-name", "a", "--entity-default"), "more names of entities"),
        (("--entity-type", "topics", "--entity-default"), "topics have no default"),
        (("--entity-type", "topics", "--entity-type", "users"), "go with no other type"),
        (("--user", "ann", "--entity-type", "clients"), "does not go with its short forms"),
        (("--ip", "10.0.0.1", "--client", "app"), "only users and clients go together"),
    ],
)
def test_combinations_that_have_no_quotas(arguments: tuple[str, ...], reason: str) -> None:
    done = CliRunner().invoke(command, [*SERVER, "--describe", *arguments])
    assert done.exit_code == 2
    assert reason in done.output
