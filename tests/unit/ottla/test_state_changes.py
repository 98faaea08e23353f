"""Reading journals: merged, filtered, followed across a rotation."""

import json

import pytest
import zstandard
from click.testing import CliRunner

from cluster.journal.frames import MAGIC, encode_frame
from ottla.commands.inspection.state_changes import JournalReader, command, line_of, parse_time
from ottla.commands.terminal.failure import CommandError


def journal(*events):
    return MAGIC + b"".join(map(encode_frame, events))


def role(at, broker, partition=0, topic="a"):
    return {
        "at": at,
        "broker": broker,
        "n": at,
        "kind": "role",
        "topic": topic,
        "partition": partition,
        "role": "leader",
        "leader_epoch": 1,
    }


def shown(*arguments):
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


@pytest.fixture
def logs(tmp_path):
    for broker in (0, 1):
        directory = tmp_path / str(broker)
        directory.mkdir()
        old = journal(role(broker + 1, broker))
        (directory / "state-changes-000000000000001.journal.zst").write_bytes(
            zstandard.ZstdCompressor().compress(old)
        )
        (directory / "state-changes.journal").write_bytes(
            journal(role(broker + 3, broker, partition=1), role(broker + 5, broker, topic="b"))
        )
    return f"{tmp_path / '0'},{tmp_path / '1'}"


def test_journals_are_merged_by_time(logs):
    assert [event["at"] for event in shown("--logs", logs)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--topic", "b"], [5, 6]),
        (["--partitions", "1"], [3, 4]),
        (["--kind", "isr,state"], []),
        (["--start-time", "3", "--end-time", "5"], [3, 4, 5]),
    ],
)
def test_events_are_chosen(logs, arguments, expected):
    assert [event["at"] for event in shown("--logs", logs, *arguments)] == expected


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "x.journal").write_bytes(b"something else")
    result = CliRunner().invoke(command, ["--logs", str(tmp_path / "x.journal")])
    assert result.exit_code == 1
    assert "no state-change journal" in result.output


def test_a_reader_goes_on_over_a_rotation(tmp_path):
    path = tmp_path / "state-changes.journal"
    path.write_bytes(journal(role(1, 0)))
    reader = JournalReader(path)
    assert [event["at"] for event in reader.read()] == [1]
    with path.open("ab") as file:
        file.write(encode_frame(role(2, 0)))
    path.rename(tmp_path / "state-changes-1.journal")
    path.write_bytes(journal(role(3, 0)))
    assert [event["at"] for event in reader.read()] == [2, 3]
    assert list(reader.read()) == []


def test_a_line_says_when_who_and_what():
    assert line_of(role(1_700_000_000_123, 2)) == (
        "2023-11-14 22:13:20.123  broker 2  a-0  becomes leader, epoch 1"
    )


def test_times():
    assert parse_time("1700000000123") == 1_700_000_000_123
    assert parse_time("2023-11-14T22:13:20") == 1_700_000_000_000
    assert parse_time(None) is None
    with pytest.raises(CommandError):
        parse_time("yesterday")
