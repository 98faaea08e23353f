"""Lines of input as records: Kafka's LineMessageReader, JSON lines, and CSV. No I/O.

Bytes stay what they are: nothing is decoded on the way, so that a file comes out of the topic as it went in.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.commands.console.csv_lines import join_open_quotes, split_row
from ottla.commands.console.records import InputRecord, LineError
from wire.records.record import Header


class RecordReader(Protocol):
    """Turns lines, without their line ends, into records."""

    @property
    def plain(self) -> bool:
        """Whether each line is a value as it is, and nothing else."""

    def read(self, line: bytes) -> InputRecord | None:
        """Return the next line's record, None where it brings none.

        Raises:
            LineError: The line is no record.
        """


class LineReader:
    """Reads ``headers<delimiter>key<separator>value``, of which properties say what is there.

    Args:
        properties: Those of kafka-console-producer's reader: parse.key, key.separator, parse.headers,
            headers.delimiter, headers.separator, headers.key.separator, ignore.error, null.marker.

    Raises:
        ValueError: Two separators are alike, or the headers' one is no regular expression.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._parses_key = flag("parse.key")
        self._parses_headers = flag("parse.headers")
        self._ignores_errors = flag("ignore.error")
        texts = {
            "headers.delimiter": properties.get("headers.delimiter", "\t"),
            "headers.separator": properties.get("headers.separator", ","),
            "headers.key.separator": properties.get("headers.key.separator", ":"),
            "key.separator": properties.get("key.separator", "\t"),
            "null.marker": properties.get("null.marker"),
        }
        _check_different(texts)
        self._key_separator = _bytes(texts["key.separator"])
        self._headers_delimiter = _bytes(texts["headers.delimiter"])
        self._header_key_separator = _bytes(texts["headers.key.separator"])
        marker = texts["null.marker"]
        self._null_marker = None if marker is None else marker.encode()
        try:
            self._headers_separator = re.compile(_bytes(texts["headers.separator"]))
        except re.error as error:
            raise ValueError(f"headers.separator is no regular expression: {error}") from None
        self._number = 0

    @property
    def plain(self) -> bool:
        """Whether each line is a value and nothing else."""
        return not (self._parses_key or self._parses_headers or self._null_marker is not None)

    def read(self, line: bytes) -> InputRecord:
        """Return the record of a line.

        Raises:
            LineError: A separator is missing, and errors are not ignored.
        """
        self._number += 1
        begin = 0
        headers = key = None
        if self._parses_headers:
            headers = self._field(line, begin, self._headers_delimiter, "headers delimiter")
            begin += 0 if headers is None else len(headers) + len(self._headers_delimiter)
        if self._parses_key:
            key = self._field(line, begin, self._key_separator, "key separator")
            begin += 0 if key is None else len(key) + len(self._key_separator)
        found: Sequence[Header] = ()
        if headers is not None and headers != self._null_marker:
            found = self._split_headers(headers)
        return InputRecord(self._unmarked(key), self._unmarked(line[begin:]), found)

    def _unmarked(self, data: bytes | None) -> bytes | None:
        return None if data == self._null_marker else data

    def _field(self, line: bytes, begin: int, separator: bytes, name: str) -> bytes | None:
        end = line.find(separator, begin)
        if end >= 0:
            return line[begin:end]
        if self._ignores_errors:
            return None
        raise LineError(f"No {name} found on line number {self._number}: '{_shown(line)}'")

    def _split_headers(self, text: bytes) -> list[Header]:
        pairs = self._headers_separator.split(text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()  # as Java splits
        headers: list[Header] = []
        for pair in pairs:
            name, separator, value = pair.partition(self._header_key_separator)
            if not separator:
                if not self._ignores_errors:
                    raise LineError(
                        f"No header key separator found in pair '{_shown(pair)}' on line number {self._number}"
                    )
                headers.append((_shown(pair), None))
                continue
            if name == self._null_marker:
                raise LineError(
                    f"Header keys should not be equal to the null marker '{_shown(name)}' as they can't be null"
                )
            headers.append((_shown(name), self._unmarked(value)))
        return headers


def _check_different(texts: Mapping[str, str | None]) -> None:
    names = ("headers.delimiter", "headers.separator", "headers.key.separator")
    pairs = [("headers.delimiter", "headers.separator"), ("headers.delimiter", "headers.key.separator")]
    pairs += [("headers.separator", "headers.key.separator"), ("null.marker", "key.separator")]
    pairs += [("null.marker", name) for name in names]
    for one, other in pairs:
        if texts[one] == texts[other]:
            raise ValueError(f"{one} and {other} may not be equal")


def _bytes(text: str | None) -> bytes:
    assert text is not None
    return text.encode(errors="surrogateescape")


def _shown(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})
_OUTPUT_ONLY: Final = frozenset({"topic", "offset", "timestamp_type"})
"""What the consumer writes and the producer passes over, so that one's output is the other's input."""


class JsonReader:
    """Reads an object a line, in the form that ``console-consumer --json`` writes.

    Text stands as a string, other bytes as ``{"base64": "..."}``, any other JSON as its own text.
    """

    plain = False

    def __init__(self) -> None:
        self._number = 0

    def read(self, line: bytes) -> InputRecord | None:
        """Return the record of a line; None for an empty one.

        Raises:
            LineError: It is no JSON object, or a member is not known or of the wrong kind.
        """
        self._number += 1
        if not line.strip():
            return None
        try:
            members = json.loads(line)
        except ValueError as error:
            raise LineError(f"line {self._number} is no JSON: {error}") from None
        if not isinstance(members, dict):
            raise LineError(f"line {self._number} holds no JSON object")
        return _from_members(members, f"line {self._number}")


class CsvReader:
    """Reads CSV (RFC 4180): the first row names the columns.

    An empty field is null and ``""`` an empty string; headers are a JSON list of pairs.
    """

    plain = False

    def __init__(self) -> None:
        self._number = 0
        self._columns: list[str] | None = None
        self._open = b""

    def read(self, line: bytes) -> InputRecord | None:
        """Return the record of a row; None for the header, and while a quoted field goes on.

        Raises:
            LineError: A row has other fields than the header, or one is of the wrong kind.
        """
        self._number += 1
        row, self._open = join_open_quotes(self._open, line)
        if row is None or (not row and self._columns is not None and len(self._columns) > 1):
            return None
        where = f"line {self._number}"
        fields = split_row(row)
        if self._columns is None:
            self._columns = [_shown(name or b"").strip().lower() for name in fields]
            unknown = [name for name in self._columns if name not in _FIELDS | _OUTPUT_ONLY]
            if unknown or "value" not in self._columns:
                raise LineError(
                    f"{where}: the first row names the columns: value, and any of key, headers, partition, timestamp"
                    + (f"; {unknown[0]!r} is none of them" if unknown else "")
                )
            return None
        if len(fields) != len(self._columns):
            raise LineError(f"{where} has {len(fields)} fields, and the header {len(self._columns)}")
        members: dict[str, Any] = dict(zip(self._columns, fields, strict=True))
        for name in ("partition", "timestamp"):
            members[name] = _number(members.get(name), name, where)
        text = members.pop("headers", None)
        try:
            headers = [] if not text else json.loads(text)
        except ValueError as error:
            raise LineError(f"{where}: headers are no JSON: {error}") from None
        return InputRecord(
            members.get("key"),
            members["value"],
            _headers(headers, where),
            members["partition"],
            members["timestamp"],
        )

    @property
    def is_inside(self) -> bool:
        """Whether the input has ended within a quoted field."""
        return bool(self._open)


def _number(data: bytes | None, name: str, where: str) -> int | None:
    if not data:
        return None
    try:
        return int(data)
    except ValueError:
        raise LineError(f"{where}: the {name} {_shown(data)!r} is no number") from None


def _from_members(members: dict[str, Any], where: str) -> InputRecord:
    unknown = sorted(members.keys() - _FIELDS - _OUTPUT_ONLY)
    if unknown:
        raise LineError(f"{where}: {unknown[0]!r} is none of {', '.join(sorted(_FIELDS))}")
    for name in ("partition", "timestamp"):
        number = members.get(name)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise LineError(f"{where}: the {name} {json.dumps(number)} is no number")
    return InputRecord(
        _data(members.get("key"), where),
        _data(members.get("value"), where),
        _headers(members.get("headers") or [], where),
        members.get("partition"),
        members.get("timestamp"),
    )


def _headers(found: Any, where: str) -> list[Header]:
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise LineError(f"{where}: headers are a list of pairs, or an object")
    return [(name, _data(value, where)) for name, value in pairs]


def _data(value: Any, where: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except ValueError as error:
            raise LineError(f"{where}: no base64: {error}") from None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
