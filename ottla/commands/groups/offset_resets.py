"""Where a group's offsets are to be set: every way that kafka-consumer-groups knows.

An offset outside of what a log holds is moved to its nearer end; a time after the last record means the end.
"""

import csv
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.failure import CommandError
from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_EARLIEST: Final = -2
_LATEST: Final = -1
_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

WAYS: Final = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
    "from_file",
)
"""The options of which a reset needs one."""


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """Where a group is in a partition, None where it never was, and where it shall be."""

    before: Offset | None
    after: Offset


@dataclass(frozen=True, slots=True)
class Reset:
    """One way, and what it is given."""

    way: str
    value: Any = None


def is_given(value: object) -> bool:
    """Whether an option was used; 0 is a value like any other."""
    return value is not None and value is not False and value != ()


def parse_reset(options: Mapping[str, Any]) -> Reset:
    """Find the way that the options ask for.

    Raises:
        click.UsageError: they ask for none, or for several, or a value is not understood.
    """
    given = [way for way in WAYS if is_given(options[way])]
    if len(given) != 1:
        names = ", ".join(f"--{way.replace('_', '-')}" for way in WAYS)
        raise click.UsageError(f"--reset-offsets needs exactly one of {names}")
    way = given[0]
    try:
        if way == "to_datetime":
            return Reset(way, parse_datetime(options[way]))
        if way == "by_duration":
            return Reset(way, parse_duration(options[way]))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return Reset(way, options[way])


def parse_datetime(text: str) -> datetime:
    """Read ``2026-01-31T12:00:00.000``; it is UTC's unless it names its zone.

    Raises:
        ValueError: it is written otherwise.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--to-datetime {text!r} is not YYYY-MM-DDTHH:MM:SS.sss") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Read ``PnDTnHnMnS``.

    Raises:
        ValueError: it is written otherwise.
    """
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {n: v for n, v in match.groupdict().items() if n != "sign" and v}
    if match is None or not parts or text[-1] in "Tt":
        raise ValueError(f"--by-duration {text!r} is not PnDTnHnMnS")
    duration = timedelta(**{name: float(value) for name, value in parts.items()})
    return -duration if match["sign"] == "-" else duration


def read_offsets_file(path: Path, groups: Sequence[str]) -> dict[str, dict[TopicPartition, Offset]]:
    """Read what ``--export`` wrote: ``topic,partition,offset``, or with the group in front.

    Args:
        path: The file.
        groups: The groups that are reset; lines without a group are for the only one.

    Raises:
        CommandError: a line is written otherwise.
    """
    found: dict[str, dict[TopicPartition, Offset]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            named = [groups[0], *row] if len(row) == 3 and len(groups) == 1 else row
            try:
                group, topic, partition, offset = (part.strip() for part in named)
                at = TopicPartition(topic, int(partition))
                found.setdefault(group, {})[at] = Offset(int(offset))
            except ValueError:
                raise CommandError(
                    f"{path}:{number} is not TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET"
                ) from None
    return found


def write_offsets(plans: Mapping[str, Mapping[TopicPartition, PlannedOffset]]) -> str:
    """Write plans as lines that `read_offsets_file` reads."""
    lines = []
    for group, planned in plans.items():
        for partition, each in sorted(planned.items()):
            fields = [partition.topic, str(partition.partition), str(each.after)]
            lines.append(",".join(fields if len(plans) == 1 else [_quoted(group), *fields]))
    return "\n".join(lines)


async def plan(
    admin: "Admin",
    reset: Reset,
    partitions: Collection[TopicPartition],
    committed: Mapping[TopicPartition, Offset],
    wanted: Mapping[TopicPartition, Offset],
    now: Callable[[], datetime],
    note: Callable[[str], None] = lambda text: click.echo(text, err=True),
) -> dict[TopicPartition, PlannedOffset]:
    """Find out where a group's offsets shall be. Changes nothing.

    Args:
        admin: Where to look.
        reset: How.
        partitions: Which ones.
        committed: Where the group is.
        wanted: What the file says, where there is one.
        now: The time, for durations.
        note: Takes a line for people about each offset that a log does not hold.

    Raises:
        CommandError: a partition does not exist, or has nothing to shift.
    """
    starts = await _look(admin, partitions, _EARLIEST)
    ends = await _look(admin, partitions, _LATEST)
    targets: Mapping[TopicPartition, int]
    match reset.way:
        case "to_earliest":
            targets = starts
        case "to_latest":
            targets = ends
        case "to_current":
            targets = {each: committed.get(each, ends[each]) for each in partitions}
        case "to_offset":
            targets = dict.fromkeys(partitions, reset.value)
        case "shift_by":
            missing = sorted(each for each in partitions if each not in committed)
            if missing:
                raise CommandError(f"nothing is committed to be shifted in {', '.join(map(str, missing))}")
            targets = {each: committed[each] + reset.value for each in partitions}
        case "from_file":
            targets = wanted
        case _:
            moment = reset.value if reset.way == "to_datetime" else now() - reset.value
            found = await _look(admin, partitions, int(moment.timestamp() * 1000))
            targets = {each: offset if offset >= 0 else ends[each] for each, offset in found.items()}
    return {
        each: PlannedOffset(committed.get(each), _within(each, targets[each], starts[each], ends[each], note))
        for each in partitions
    }


def _within(
    partition: TopicPartition, wanted: int, start: Offset, end: Offset, note: Callable[[str], None]
) -> Offset:
    offset = Offset(min(max(wanted, start), end))
    if offset != wanted:
        note(f"{partition}: offset {wanted} is not between {start} and {end}; {offset} is taken")
    return offset


async def _look(
    admin: "Admin", partitions: Collection[TopicPartition], when: int
) -> dict[TopicPartition, Offset]:
    from ottla.client.admin import FoundOffset

    found = await admin.list_offsets(dict.fromkeys(partitions, when))
    offsets = {}
    for partition, outcome in found.items():
        if not isinstance(outcome, FoundOffset):
            raise CommandError(f"{partition}: {outcome}")
        offsets[partition] = outcome.offset
    return offsets


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if any(mark in field for mark in ',"\n') else field
