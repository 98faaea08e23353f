"""``ottla state-changes``: the journals of a cluster's brokers, merged into one time line.

The clocks of hosts differ: events of one broker stand in their own order, those of different brokers in that of their
clocks.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.terminal.choice import data_option
from ottla.commands.terminal.failure import CommandError
from timing.polling import pause_between_looks

_LOOK_AGAIN_S: Final = 0.1
_JOURNAL: Final = "state-changes.journal"
_COMPRESSED: Final = "state-changes-*.journal.zst"
_ROTATED: Final = "state-changes-*.journal"
_SUFFIXES: Final = (".journal", ".zst")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which events are shown."""

    topic: re.Pattern[str] | None
    partitions: frozenset[int]
    kinds: frozenset[str]
    since_ms: int | None
    until_ms: int | None

    def takes(self, event: Event) -> bool:
        """Whether an event is shown."""
        at = event.get("at", 0)
        return (
            (self.topic is None or self.topic.fullmatch(event.get("topic", "")) is not None)
            and (not self.partitions or event.get("partition") in self.partitions)
            and (not self.kinds or event.get("kind") in self.kinds)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at <= self.until_ms)
        )


@click.command("state-changes")
@data_option
@click.option("--logs", metavar="PATH,...", help="Journals, or directories with them, instead of --data.")
@click.option("--topic", help="Only topics that fit this regular expression.")
@click.option("--partitions", metavar="0,1,...", help="Only these partitions.")
@click.option(
    "--kind", "kinds", metavar="KIND,...", help="Only partition, replica, role, isr, deleted, state."
)
@click.option("--start-time", metavar="TIME", help="Not before: ISO 8601, or ms since 1970.")
@click.option("--end-time", metavar="TIME", help="Not after.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more happens, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line, for programs.")
def command(
    data: Path,
    logs: str | None,
    topic: str | None,
    partitions: str | None,
    kinds: str | None,
    start_time: str | None,
    end_time: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what happened to partitions and replicas, in order, on all brokers."""
    choice = Choice(
        _expression(topic),
        frozenset(_numbers(partitions)),
        frozenset(part.strip() for part in (kinds or "").split(",") if part.strip()),
        parse_time(start_time),
        parse_time(end_time),
    )
    paths = [Path(part) for part in logs.split(",")] if logs else _journals_of(data)
    readers = [JournalReader(path) for path in journal_files(paths)]
    try:
        while True:
            events = [event for reader in readers for event in reader.read() if choice.takes(event)]
            for event in sorted(events, key=_order):
                click.echo(json.dumps(event) if as_json else line_of(event))
            if not follow:
                break
            pause_between_looks(_LOOK_AGAIN_S)
    except KeyboardInterrupt:
        pass
    for reader in readers:
        if reader.damage is not None:
            raise CommandError(reader.damage)


def _order(event: Event) -> tuple[int, int, int]:
    return event.get("at", 0), event.get("broker", -1), event.get("n", 0)


def _journals_of(data: Path) -> list[Path]:
    state = ClusterDirectory(data).require()
    return [broker.path / "logs" for broker in state.brokers]


def journal_files(paths: Sequence[Path]) -> list[Path]:
    """Return the journals that paths stand for: files themselves, directories for the journals in them.

    Raises:
        CommandError: a path does not exist.
    """
    found = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob(_COMPRESSED)) + sorted(path.glob(_ROTATED))
            found += [path / _JOURNAL] if (path / _JOURNAL).exists() else []
        elif path.exists() and path.suffix in _SUFFIXES:
            found.append(path)
        else:
            raise CommandError(f"{path} is no journal, nor a directory with journals")
    return found


class JournalReader:
    """Reads a journal from its beginning, and then what was added to it.

    Attributes:
        damage: What is wrong with the file; None where nothing is.
    """

    def __init__(self, path: Path) -> None:
        self.damage: str | None = None
        self._path = path
        self._file: BinaryIO | None = None
        self._data = b""
        self._position = 0

    def read(self) -> Iterator[Event]:
        """Return the events since the last reading; after a rotation, the rest of the old file and then the new one."""
        if self._path.suffix == ".zst":
            yield from self._read_compressed()
            return
        while self.damage is None:
            if self._file is None:
                self._data, self._position = b"", 0
                try:
                    self._file = self._path.open("rb")
                except FileNotFoundError:
                    return  # the next one is about to be made
            self._data += self._file.read()
            yield from self._events()
            if not self._was_rotated(self._file):
                return
            self._file.close()
            self._file = None

    def _read_compressed(self) -> Iterator[Event]:
        import zstandard

        if not self._position:
            self._data = zstandard.ZstdDecompressor().decompress(self._path.read_bytes())
            yield from self._events()

    def _events(self) -> Iterator[Event]:
        from cluster.journal.frames import JournalError, read_frames

        try:
            for event, position in read_frames(self._data, self._position):
                self._position = position
                yield event
        except JournalError as error:
            self.damage = f"{self._path}: {error}; the events before it are shown"

    def _was_rotated(self, file: BinaryIO) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return True


def parse_time(text: str | None) -> int | None:
    """Read a time: ISO 8601 (UTC where no zone is given), or ms since 1970; None for no text.

    Raises:
        CommandError: it is neither.
    """
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is no time: 2026-01-31T12:00:00, or ms since 1970") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _expression(topic: str | None) -> re.Pattern[str] | None:
    try:
        return None if topic is None else re.compile(topic)
    except re.error as error:
        raise CommandError(f"--topic {topic!r} is no regular expression: {error}") from None


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise CommandError(f"--partitions {text!r} is not 0,1,2") from None


def line_of(event: Event) -> str:
    """Format an event on one line: its time, then the broker that logged it."""
    at = datetime.fromtimestamp(event.get("at", 0) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{at}  broker {event.get('broker', '?')}  {_sentence(event)}"


def _sentence(event: Event) -> str:
    kind = event.get("kind")
    where = f"{event.get('topic')}-{event.get('partition')}"
    epoch = f"epoch {event.get('leader_epoch')}"
    match kind:
        case "partition":
            controller = f"controller epoch {event.get('controller_epoch')}"
            led = f", leader {event['leader']}, {epoch}, ISR {_ids(event)}" if "leader" in event else ""
            return f"{where}  {event.get('before')} → {event.get('after')}{led}  ({controller})"
        case "replica":
            change = f"{event.get('before')} → {event.get('after')}"
            return f"{where} on {event.get('replica')}  {change}  (controller epoch {event.get('controller_epoch')})"
        case "role":
            return f"{where}  becomes {event.get('role')}, {epoch}"
        case "isr":
            return f"{where}  ISR {_ids(event)}, {epoch}"
        case "deleted":
            return f"{where}  replica stopped"
        case "state":
            return f"is {event.get('state')}"
        case "dropped":
            return f"{event.get('count')} events were not written: too many at once"
    return " ".join(f"{name}={value}" for name, value in event.items() if name not in ("at", "broker", "n"))


def _ids(event: Event) -> str:
    return ",".join(map(str, event.get("isr", ()))) or "none"
