"""Checkpoints of Spark's structured streaming: the progress of a query, from its files.

    DIR/metadata          {"id": "..."}
    DIR/offsets/N         what batch N is to read: a version, a line of settings, a line for each source
    DIR/commits/N         batch N is done

A source's line, where it is Kafka, is ``{"topic": {"0": 17}}``: where the next batch begins.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wire.types import Offset, TopicPartition

_DEPTH_MAX: Final = 4
_CHECKPOINTS_MAX: Final = 200
_FILE_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A query's state.

    Attributes:
        path: Where it is.
        query: The query's id; None where the file does not say.
        planned: The newest batch that was planned; -1 where there is none.
        done: The newest batch that is done; likewise.
        done_at_ms: When that was; None where there is none.
        offsets: Where the newest planned batch ends, of Kafka's topics.
        problem: Why not all of it can be read; None if it can.
    """

    path: Path
    query: str | None
    planned: int
    done: int
    done_at_ms: int | None
    offsets: dict[TopicPartition, Offset]
    problem: str | None

    @property
    def is_in_batch(self) -> bool:
        """Whether a batch is planned and not done: it is running, or the job stopped in it."""
        return self.planned > self.done


def find_checkpoints(roots: "list[Path]") -> list[Checkpoint]:
    """Return the checkpoints in directories, and in those below them."""
    found = []
    for root in roots:
        for path in _folders(root, _DEPTH_MAX):
            found.append(read_checkpoint(path))
            if len(found) >= _CHECKPOINTS_MAX:
                return found
    return found


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "offsets").is_dir() and (folder / "metadata").is_file():
        yield folder
    elif depth:
        try:
            below = sorted(
                each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")
            )
        except OSError:
            return
        for each in below:
            yield from _folders(each, depth - 1)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; what is damaged or half-written becomes its problem."""
    problem = None
    query = None
    offsets: dict[TopicPartition, Offset] = {}
    planned, done = _newest(path / "offsets"), _newest(path / "commits")
    try:
        query = str(json.loads(_text(path / "metadata"))["id"])
        if planned >= 0:
            offsets = parse_offsets_file(_text(path / "offsets" / str(planned)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"It cannot be read: {error}."
    done_at = None
    if done >= 0:
        try:
            done_at = (path / "commits" / str(done)).stat().st_mtime_ns // 1_000_000
        except OSError:
            done_at = None
    return Checkpoint(path, query, planned, done, done_at, offsets, problem)


def parse_offsets_file(text: str) -> dict[TopicPartition, Offset]:
    """Return the end offsets of a batch's Kafka sources.

    Raises:
        ValueError: It is not such a file.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("v"):
        raise ValueError("no version in the first line")
    found: dict[TopicPartition, Offset] = {}
    for line in lines[2:]:
        if line.startswith("{"):
            for topic, partitions in json.loads(line).items():
                if isinstance(partitions, dict):
                    for number, offset in partitions.items():
                        found[TopicPartition(topic, int(number))] = Offset(int(offset))
    return found


def _newest(folder: Path) -> int:
    try:
        return max((int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=-1)
    except OSError:
        return -1


def _text(path: Path) -> str:
    if path.stat().st_size > _FILE_MAX:
        raise ValueError(f"{path.name} is larger than {_FILE_MAX} bytes")
    return path.read_text(encoding="utf-8")
