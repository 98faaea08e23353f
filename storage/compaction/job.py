"""What the broker asks of a compaction worker, and what it gets back: plain values that go through a pipe as JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """One log to be cleaned.

    Attributes:
        directory: the log's.
        groups: base offsets of the segments to be cleaned, in order; each group becomes one segment.
        dirty: base offsets of the segments whose keys are collected, in order.
        first_dirty: where the dirty part begins, in the first of `dirty`.
        end: where the part ends that may be cleaned.
        now: wall time in milliseconds.
        delete_retention_ms: how long a tombstone stays once it is in the clean part.
        legacy_horizon: tombstones without a horizon of their own, in old formats, go from segments older than this.
        index_interval: bytes between index entries.
        aborted: aborted transactions of the log, as (producer id, first offset, last offset, last stable offset).
        last_records: by producer id as text, the producer's last offset (-1 where it has none) and epoch.
        memory: bytes that the collected keys may take.
        bytes_per_second: the most that may be read and written a second; None for no limit.
    """

    directory: str
    groups: Sequence[Sequence[int]]
    dirty: Sequence[int]
    first_dirty: int
    end: int
    now: int
    delete_retention_ms: int
    legacy_horizon: int
    index_interval: int
    aborted: Sequence[Sequence[int]] = ()
    last_records: Mapping[str, Sequence[int]] = field(default_factory=dict)
    memory: int = 128 * 1024 * 1024
    bytes_per_second: float | None = None

    def to_json(self) -> bytes:
        """Return it as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Read it back."""
        values: dict[str, Any] = json.loads(line)
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A finished group: a segment with the suffix `.cleaned`, at the group's first base offset.

    Attributes:
        bases: of the segments that it replaces.
        changed: False where the one segment came out as it was; there are no files then.
    """

    bases: Sequence[int]
    changed: bool = True

    def to_json(self) -> bytes:
        """Return it as one line, whose beginning tells it from a result's line."""
        return b"+" + json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self | None:
        """Read it back; None where the line is not a group's."""
        return cls(**json.loads(line[1:])) if line.startswith(b"+") else None


OnGroup = Callable[[CleanedGroup], None]
"""Called with each group as soon as its files are on disk; the worker no longer touches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult:
    """What a cleaning did.

    Attributes:
        groups: those that were finished, in order.
        end: the offset up to which the log is clean now.
        bytes_read: of the segments, once for the keys and once for the copy.
        bytes_written: into new segments.
        records_read: in the copy.
        records_kept: of those.
        keys: how many were collected.
        error: why the log cannot be cleaned; None where it was.
        errno: of the failed system call, where that is the reason.
    """

    groups: Sequence[CleanedGroup] = ()
    end: int = -1
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0
    error: str | None = None
    errno: int | None = None

    def to_json(self) -> bytes:
        """Return it as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Read it back."""
        values: dict[str, Any] = json.loads(line)
        groups = [CleanedGroup(**group) for group in values.pop("groups")]
        return cls(groups=groups, **values)


class WorkerFailedError(Exception):
    """A worker that ended without a result: it was killed, ran out of memory, or has a bug, whose traceback is the
    text.
    """
