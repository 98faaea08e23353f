"""kafka-consumer-groups' flags: valid combinations, and how times, files and plans are read and written."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from ottla.client.admin import FoundOffset
from ottla.client.errors import refusal
from ottla.commands.groups.group_report import assignment_text
from ottla.commands.groups.groups import command
from ottla.commands.groups.offset_resets import (
    PlannedOffset,
    Reset,
    parse_datetime,
    parse_duration,
    plan,
    read_offsets_file,
    write_offsets,
)
from ottla.commands.terminal.failure import CommandError
from wire.errors import Error
from wire.types import LeaderEpoch, Offset, TopicPartition, WallMs

SERVER = ["--bootstrap-server", "127.0.0.1:1"]
RESET = ["--reset-offsets", "--group", "g"]

CONFLICTS = {
    "no action": [],
    "two actions": ["--list", "--describe", "--group", "g"],
    "describe without group": ["--describe"],
    "group and all groups": ["--describe", "--group", "g", "--all-groups"],
    "list with group": ["--list", "--group", "g"],
    "members and offsets": ["--describe", "--group", "g", "--members", "--offsets"],
    "members and state": ["--describe", "--group", "g", "--members", "--state"],
    "verbose with delete": ["--delete", "--group", "g", "--verbose"],
    "type with describe": ["--describe", "--group", "g", "--type"],
    "delete offsets without topic": ["--delete-offsets", "--group", "g"],
    "delete offsets of all groups": ["--delete-offsets", "--all-groups", "--topic", "t"],
    "reset without a way": [*RESET, "--topic", "t"],
    "reset in two ways": [*RESET, "--topic", "t", "--to-earliest", "--to-offset", "0"],
    "reset without topics": [*RESET, "--to-earliest"],
    "reset of a topic and all": [*RESET, "--to-earliest", "--topic", "t", "--all-topics"],
    "reset, dry and not": [*RESET, "--to-earliest", "--topic", "t", "--dry-run", "--execute"],
    "reset to no time": [*RESET, "--to-datetime", "noon", "--topic", "t"],
    "reset by no duration": [*RESET, "--by-duration", "1 day", "--topic", "t"],
    "reset before the start": [*RESET, "--to-offset", "-1", "--topic", "t"],
    "no such state": ["--list", "--state", "stable,bogus"],
    "no such type": ["--list", "--type", "bogus"],
    "execute with list": ["--list", "--execute"],
    "shift by nothing with list": ["--list", "--shift-by", "0"],
}


@pytest.mark.parametrize("arguments", CONFLICTS.values(), ids=CONFLICTS.keys())
def test_flags_that_do_not_go_together(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, [*SERVER, *arguments])
    assert result.exit_code == 2, result.output
    assert "Error:" in result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("-P2D", timedelta(days=-2)),
        ("p1d", timedelta(days=1)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1H", "1D", "P1D2"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="PnDTnHnMnS"):
        parse_duration(text)


def test_times_are_utcs_unless_they_name_their_zone() -> None:
    assert parse_datetime("2026-01-31T12:00:00.000") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_datetime("2026-01-31T12:00:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)


@pytest.mark.parametrize("groups", [("g",), ("g", "a, strange one")])
def test_what_is_exported_is_read_again(groups: tuple[str, ...], tmp_path: Path) -> None:
    at = TopicPartition("orders", 0)
    plans = {group: {at: PlannedOffset(None, Offset(number))} for number, group in enumerate(groups)}
    file = tmp_path / "offsets.csv"
    file.write_text(write_offsets(plans))
    assert read_offsets_file(file, groups) == {group: {at: number} for number, group in enumerate(groups)}


def test_a_file_that_says_something_else_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,5\norders,first,5\n")
    with pytest.raises(CommandError, match="csv:2 is not"):
        read_offsets_file(file, ["g"])


ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 1)
NOW = datetime(2026, 1, 31, tzinfo=UTC)


class Logs:
    """Two partitions: 10 to 100, and 0 to 50; the timestamp 1,000 ms is at offset 42, in the first only."""

    async def list_offsets(self, wanted):
        known = {-2: {ORDERS: 10, PAID: 0}, -1: {ORDERS: 100, PAID: 50}}
        found = {}
        for at, when in wanted.items():
            offset = known.get(when, {ORDERS: 42, PAID: -1}).get(at)
            found[at] = (
                refusal(Error.UNKNOWN_TOPIC_OR_PARTITION)
                if offset is None
                else FoundOffset(Offset(offset), WallMs(-1), LeaderEpoch(-1))
            )
        return found


def planned(reset: Reset, committed=None, partitions=(ORDERS, PAID), wanted=None) -> dict:
    async def main():
        return await plan(Logs(), reset, partitions, committed or {}, wanted or {}, lambda: NOW)

    return {at: (each.before, each.after) for at, each in trio.run(main).items()}


def test_where_each_way_leads() -> None:
    committed = {ORDERS: Offset(20), PAID: Offset(30)}
    assert planned(Reset("to_earliest"), committed) == {ORDERS: (20, 10), PAID: (30, 0)}
    assert planned(Reset("to_latest")) == {ORDERS: (None, 100), PAID: (None, 50)}
    assert planned(Reset("to_current"), {ORDERS: Offset(20)}) == {ORDERS: (20, 20), PAID: (None, 50)}
    assert planned(Reset("shift_by", -15), committed) == {ORDERS: (20, 10), PAID: (30, 15)}
    assert planned(Reset("shift_by", 0), committed) == {ORDERS: (20, 20), PAID: (30, 30)}
    moment = datetime.fromtimestamp(1, tz=UTC)
    assert planned(Reset("to_datetime", moment)) == {ORDERS: (None, 42), PAID: (None, 50)}
    assert planned(Reset("by_duration", timedelta(days=1))) == {ORDERS: (None, 42), PAID: (None, 50)}
    assert planned(Reset("from_file"), wanted={ORDERS: 55, PAID: 5}) == {ORDERS: (None, 55), PAID: (None, 5)}


def test_an_offset_outside_of_the_log_is_moved_to_its_end_and_said(capsys) -> None:
    assert planned(Reset("to_offset", 60)) == {ORDERS: (None, 60), PAID: (None, 50)}
    assert planned(Reset("to_offset", 0)) == {ORDERS: (None, 10), PAID: (None, 0)}
    said = capsys.readouterr().err
    assert "offset 60 is not between 0 and 50; 50 is taken" in said
    assert "offset 0 is not between 10 and 100; 10 is taken" in said


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(CommandError, match="nothing is committed"):
        planned(Reset("shift_by", 1), {ORDERS: Offset(20)})
    with pytest.raises(CommandError, match="gone"):
        planned(Reset("to_latest"), partitions=[TopicPartition("gone", 0)])


def test_assignments_as_text() -> None:
    assert assignment_text([PAID, ORDERS, TopicPartition("orders", 2)]) == "orders(0,2), paid(1)"
    assert assignment_text([]) == "-"
