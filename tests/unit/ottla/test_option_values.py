"""How the values of options are parsed."""

import json

import pytest

from ottla.commands.configs.configs import parse_settings
from ottla.commands.inspection.log_dirs import parse_broker_ids, size_text
from ottla.commands.inspection.zookeeper_shell import readable
from ottla.commands.terminal.failure import CommandError
from ottla.commands.topics.delete_records import read_offsets
from ottla.commands.topics.get_offsets import parse_rules, parse_time
from wire.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("cleanup.policy=[compact,delete],b=x=y", {"cleanup.policy": "compact,delete", "b": "x=y"}),
        ("a=,", {"a": ""}),
        ("", {}),
    ],
)
def test_settings(text, expected):
    assert parse_settings(text) == expected


@pytest.mark.parametrize("text", ["a", "=1", "a=1,a=2", "a=[1,2", "a=1]"])
def test_settings_written_otherwise(text):
    with pytest.raises(CommandError):
        parse_settings(text)


@pytest.mark.parametrize(
    ("text", "taken", "not_taken"),
    [
        ("a", [("a", 0), ("a", 9)], [("ab", 0)]),
        ("a:1", [("a", 1)], [("a", 0), ("a", 2)]),
        ("a:1-3", [("a", 1), ("a", 2)], [("a", 0), ("a", 3)]),
        ("a:-2", [("a", 0), ("a", 1)], [("a", 2)]),
        ("a:2-", [("a", 2), ("a", 7)], [("a", 1)]),
        (":0", [("a", 0), ("b", 0)], [("a", 1)]),
        ("a.*:0,b:1", [("ab", 0), ("b", 1)], [("b", 0), ("ab", 1)]),
    ],
)
def test_partition_rules(text, taken, not_taken):
    rules = parse_rules(text)
    for each in taken:
        assert any(rule.takes(TopicPartition(*each)) for rule in rules)
    for each in not_taken:
        assert not any(rule.takes(TopicPartition(*each)) for rule in rules)


@pytest.mark.parametrize("text", ["a:x", "a:1-x", "(:1"])
def test_partition_rules_written_otherwise(text):
    with pytest.raises(CommandError):
        parse_rules(text)


def test_times_of_offsets():
    assert [parse_time(text) for text in ("latest", "earliest", "max-timestamp", "-2", "17")] == [
        -1,
        -2,
        -3,
        -2,
        17,
    ]
    with pytest.raises(CommandError):
        parse_time("soon")


def test_broker_ids():
    assert parse_broker_ids("0, 1,2") == [0, 1, 2]
    assert parse_broker_ids(None) is None
    for text in ("a", "1,1"):
        with pytest.raises(CommandError):
            parse_broker_ids(text)


def test_offsets_to_delete_before(tmp_path):
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"partitions": [{"topic": "a", "partition": 0, "offset": -1}]}))
    assert read_offsets(path) == {TopicPartition("a", 0): -1}
    path.write_text(json.dumps({"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}))
    with pytest.raises(CommandError, match="no offset"):
        read_offsets(path)


@pytest.mark.parametrize(
    ("size", "text"), [(-1, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes(size, text):
    assert size_text(size) == text


def test_data_of_znodes():
    assert readable(b'{"a": [1]}') == {"a": [1]}
    assert readable(b"7") == "7"
    assert readable(b"\xff\x00") == "0xff00"
