"""The output of a dump: lines with fields, as Kafka's text or as JSON, and remarks in words."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

Value = str | int | bool | Sequence[str] | None

_OPTIONAL_LONGS: Final = ("deleteHorizonMs", "currentTxnFirstOffset")


class Line(NamedTuple):
    """One line of a dump.

    Attributes:
        kind: What it is about, for programs: batch, record, index, timeindex, aborted, producer or remark.
        fields: Names and values, by Kafka's names; of a remark its text.
    """

    kind: str
    fields: Mapping[str, Value]

    def text(self) -> str:
        """Return the line as Kafka prints it."""
        if self.kind == "remark":
            return str(self.fields["text"])
        line = " ".join(f"{name}: {_value(name, value)}" for name, value in self.fields.items())
        if self.kind == "producer" and "firstSequence" not in self.fields:
            return line + " "
        if self.kind != "record" or not line:
            return line
        if "isValid" in self.fields:  # an old format's, after which Kafka prints a brace
            crc = f"crc: {self.fields['crc']}"
            line = line.replace(crc, crc + "}", 1)
        # Kafka omits the leading bar of a record that shows only its payload.
        return f" {line}" if next(iter(self.fields)) == "payload" else f"| {line}"

    def as_json(self, file: str) -> str:
        """Return the line as a JSON object that names its file."""
        return json.dumps({"file": file, "kind": self.kind, **self.fields})


def remark(text: str) -> Line:
    """Make a line of plain text."""
    return Line("remark", {"text": text})


def _value(name: str, value: Value) -> str:
    if name in _OPTIONAL_LONGS:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)
