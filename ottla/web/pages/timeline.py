"""The time line: the state-change journals of Ottla's brokers, merged; a failover step by step."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import trio
from starlette.responses import Response

from ottla.commands.inspection.state_changes import Choice, JournalReader, journal_files
from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.terminal.failure import CommandError
from ottla.web.answers import Answer, sentence
from ottla.web.models.timeline import KINDS, Moment, moments, newest
from ottla.web.pages.messages import parse_moment
from ottla.web.settings import WebSettings
from ottla.web.visit import Visit

COUNTS: Final = ("200", "1000", "5000")
_FILES_MAX: Final = 50
"""The most files that are read: journals are rotated; `ottla state-changes` shows older events."""


async def show(visit: Visit) -> Response:
    """Show the events of partitions and replicas."""
    settings = visit.web.settings
    is_known = bool(settings.data or settings.journals)
    choice = _choice(visit)
    count = int(visit.query.chosen("count", COUNTS, "200"))
    found: Answer[tuple[list[Moment], list[str]]] = Answer(None)
    if is_known:
        try:
            read = await trio.to_thread.run_sync(_read, settings, choice, count, abandon_on_cancel=True)
            found = Answer(read)
        except (CommandError, OSError) as error:
            found = Answer(None, sentence(error))
    return visit.page(
        "timeline.html",
        "timeline",
        is_known=is_known,
        moments=[] if found.value is None else found.value[0],
        damage=[] if found.value is None else found.value[1],
        problem=found.problem,
        kinds=KINDS,
        chosen=choice.kinds,
        counts=COUNTS,
    )


def _choice(visit: Visit) -> Choice:
    topic = visit.query.text("topic")
    partition = visit.query.optional_number("partition", "The partition")
    since = visit.query.text("since")
    return Choice(
        re.compile(re.escape(topic)) if topic else None,
        frozenset() if partition is None else frozenset({partition}),
        frozenset(each for each in visit.query.all("kind") if each in KINDS),
        int(parse_moment(since).timestamp() * 1000) if since else None,
        None,
    )


def _read(settings: WebSettings, choice: Choice, count: int) -> tuple[list[Moment], list[str]]:
    paths = list(settings.journals)
    if settings.data is not None:
        paths += [broker.path / "logs" for broker in ClusterDirectory(settings.data).require().brokers]
    files = journal_files([path for path in paths if path.exists()])
    readers = [JournalReader(path) for path in _newest_files(files)]

    def events() -> Iterator[dict[str, Any]]:
        for reader in readers:
            yield from reader.read()

    found = moments(newest(events(), choice, count))
    return found, [reader.damage for reader in readers if reader.damage is not None]


def _newest_files(files: list[Path]) -> list[Path]:
    if len(files) <= _FILES_MAX:
        return files
    return sorted(files, key=lambda path: path.stat().st_mtime)[-_FILES_MAX:]
