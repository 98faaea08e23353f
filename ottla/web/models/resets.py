"""Setting a group's offsets: the offsets typed, the committed ones, and the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.web.forms import Form, FormError
from wire.types import Offset, TopicPartition

WAYS: Final = {
    "to_current": "Where it is",
    "to_earliest": "The first offset",
    "to_latest": "The end",
    "to_datetime": "A time (UTC)",
    "by_duration": "Time before now",
    "shift_by": "So many on (or back)",
    "to_offset": "An offset",
}
"""The ways of `ottla groups --reset-offsets`, for people."""
PARTITIONS_MAX: Final = 1_000
_FIELD: Final = "to"
_BEFORE: Final = "before"


@dataclass(frozen=True, slots=True)
class ResetRow:
    """A partition of a group.

    Attributes:
        at: Which one.
        before: The committed offset; None if there is none.
        after: The offset in the field, or the one to be committed.
    """

    at: TopicPartition
    before: Offset | None
    after: Offset | None

    @property
    def field(self) -> str:
        """The name of its field."""
        return f"{_FIELD}:{self.at.partition}:{self.at.topic}"

    @property
    def before_field(self) -> str:
        """The name of the field that says what was committed when it was shown."""
        return f"{_BEFORE}:{self.at.partition}:{self.at.topic}"

    @property
    def difference(self) -> int | None:
        """How many offsets it moves forward; negative for back; None if nothing is committed."""
        return None if self.before is None or self.after is None else self.after - self.before


def typed_rows(form: Form, committed: Mapping[TopicPartition, Offset]) -> list[ResetRow]:
    """Return the partitions that a form wants changed.

    Raises:
        FormError: An offset is not a number, or the committed offset has changed since the form was shown.
    """
    rows = []
    for name in form:
        kind, _, rest = name.partition(":")
        number, _, topic = rest.partition(":")
        if kind != _FIELD or not number.isdigit() or not form.text(name):
            continue
        at = TopicPartition(topic, int(number))
        after = Offset(form.number(name, f"The offset of {at}"))
        shown = form.optional_number(f"{_BEFORE}:{rest}", f"What was committed in {at}")
        if shown != committed.get(at):
            raise FormError(f"{at} has been committed meanwhile: load the page anew to see where it is.")
        if after != shown:
            rows.append(ResetRow(at, committed.get(at), after))
    return sorted(rows, key=lambda row: row.at)


def check_bounds(
    rows: Sequence[ResetRow], starts: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> None:
    """Check that partitions have the wanted offsets.

    Raises:
        FormError: One does not.
    """
    for row in rows:
        start, end = starts.get(row.at), ends.get(row.at)
        if start is None or end is None or row.after is None:
            raise FormError(f"It is not known now which offsets {row.at} has.")
        if not start <= row.after <= end:
            raise FormError(f"{row.at} has the offsets from {start} to {end}; {row.after} is none of them.")
