"""A record on its way into a topic, and what cannot become one."""

from collections.abc import Sequence
from typing import NamedTuple

from wire.records.record import Header


class LineError(ValueError):
    """A line of the input is no record; the text says which line, and why."""


class InputRecord(NamedTuple):
    """What one line holds.

    Attributes:
        key: The key, None for none.
        value: The value, None for a tombstone.
        headers: Names and values.
        partition: Where it goes, None for the producer's choice.
        timestamp: Milliseconds since 1970, None for now.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None
