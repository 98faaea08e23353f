"""How records are written: Kafka's formatters, byte for byte, and JSON lines, CSV and columns. No I/O.

A formatter appends a record's bytes to the output. One that fails says which record it could not write.
"""

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from ottla.client import Batch, Record
from ottla.commands.console.csv_lines import join_row
from ottla.commands.console.deserializers import Deserializer, deserializer
from ottla.log_dump.message_json import to_json
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.formats.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wire.formats.transaction_log import TransactionLogKey, TransactionLogValue
from wire.formats.versioned import decode_versioned, peek_version
from wire.schema import Data


class FormatError(ValueError):
    """A record cannot be written in this form."""


class Formatter(Protocol):
    """Writes records."""

    def begin(self, out: bytearray) -> None:
        """Append what stands before all records."""

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record.

        Raises:
            ValueError: It cannot be written in this form.
        """

    def write_all(self, batch: "Batch[bytes, bytes]", out: bytearray) -> bool:
        """Append a whole batch at once where that is quicker; return whether it was."""


class _EachRecord:
    """What formatters without a quicker way for batches share."""

    def begin(self, out: bytearray) -> None:
        """Append nothing."""

    def write_all(self, batch: "Batch[bytes, bytes]", out: bytearray) -> bool:  # noqa: ARG002 - the protocol's
        """Leave it to `write`."""
        return False


def _flag(properties: Mapping[str, str], name: str, default: bool = False) -> bool:
    return properties[name].strip().lower() == "true" if name in properties else default


def _timestamp(record: "Record[bytes, bytes]") -> bytes:
    if record.timestamp < 0:
        return b"NO_TIMESTAMP"
    return b"%s:%d" % (_timestamp_type(record).encode(), record.timestamp)


def _timestamp_type(record: "Record[bytes, bytes]") -> str:
    return "LogAppendTime" if record.batch.is_log_append_time(record.offset) else "CreateTime"


class DefaultFormatter:
    """kafka-console-consumer's: the value, and before it what properties ask for.

    Args:
        properties: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value,
            key.separator, line.separator, headers.separator, null.literal, key.deserializer, value.deserializer,
            headers.deserializer.

    Raises:
        ValueError: A deserialiser is not known.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._prints_timestamp = _flag(properties, "print.timestamp")
        self._prints_partition = _flag(properties, "print.partition")
        self._prints_offset = _flag(properties, "print.offset")
        self._prints_headers = _flag(properties, "print.headers")
        self._prints_key = _flag(properties, "print.key")
        self._prints_value = _flag(properties, "print.value", True)
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key = _named_deserializer(properties, "key.deserializer")
        self._value = _named_deserializer(properties, "value.deserializer")
        self._header = _named_deserializer(properties, "headers.deserializer")
        self._is_plain = (
            self._prints_value
            and self._value is None
            and not (
                self._prints_timestamp
                or self._prints_partition
                or self._prints_offset
                or self._prints_headers
                or self._prints_key
            )
        )

    def begin(self, out: bytearray) -> None:
        """Append nothing."""

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record; raises DeserializationError where a deserialiser refuses its bytes."""
        fields: list[bytes] = []
        if self._prints_timestamp:
            fields.append(_timestamp(record))
        if self._prints_partition:
            fields.append(b"Partition:%d" % record.partition)
        if self._prints_offset:
            fields.append(b"Offset:%d" % record.offset)
        if self._prints_headers:
            fields.append(self._headers(record) if record.headers else b"NO_HEADERS")
        if self._prints_key:
            fields.append(self._text(record.key, self._key))
        if self._prints_value:
            fields.append(self._text(record.value, self._value))
        if fields:
            out += self._separator.join(fields)
            out += self._line_end

    def write_all(self, batch: "Batch[bytes, bytes]", out: bytearray) -> bool:
        """Append a batch of which only values are printed."""
        if not self._is_plain:
            return False
        values = batch.values()
        if None in values:
            values = [self._null if value is None else value for value in values]
        out += self._line_end.join(values)  # type: ignore[arg-type]  # no None in it
        out += self._line_end
        return True

    def _headers(self, record: "Record[bytes, bytes]") -> bytes:
        return self._headers_separator.join(
            name.encode(errors="surrogateescape") + b":" + self._text(value, self._header)
            for name, value in record.headers
        )

    def _text(self, data: bytes | None, read: Deserializer | None) -> bytes:
        if data is None:
            return self._null
        return data if read is None else read(data)


def _named_deserializer(properties: Mapping[str, str], name: str) -> Deserializer | None:
    return deserializer(properties[name]) if properties.get(name) else None


class LoggingFormatter(DefaultFormatter):
    """The default one, and a line on stderr for each record.

    Args:
        properties: As those of `DefaultFormatter`.
        log: Takes the line.
    """

    def __init__(self, properties: Mapping[str, str], log: Callable[[str], None]) -> None:
        super().__init__(properties)
        self._log = log

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record, and log it."""
        super().write(record, out)
        stamp = "" if record.timestamp < 0 else _timestamp(record).decode() + ", "
        key = "null " if record.key is None else record.key.decode(errors="replace") + ", "
        value = "null" if record.value is None else record.value.decode(errors="replace")
        self._log(f"{stamp}key:{key}value:{value}")

    def write_all(self, batch: "Batch[bytes, bytes]", out: bytearray) -> bool:  # noqa: ARG002 - each is logged
        """Leave it to `write`."""
        return False


class NoOpFormatter(_EachRecord):
    """Writes nothing."""

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append nothing."""


class StateFormatter(_EachRecord):
    """Records of the brokers' own topics as JSON, an object a record.

    Args:
        kinds: Messages of key and value, by the version of the key; records with other keys are left out.
        skipped: Versions of keys whose records are left out.
    """

    def __init__(self, kinds: Mapping[int, tuple[type[Data], type[Data]]], skipped: Sequence[int]) -> None:
        self._kinds = kinds
        self._skipped = frozenset(skipped)

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record.

        Raises:
            FormatError: Its key or value does not decode.
        """
        try:
            shown: dict[str, Any] = {"key": None, "value": None}
            value_kind: type[Data] | None = None
            if record.key is not None:
                version = peek_version(record.key)
                if version in self._skipped:
                    return
                key_kind, value_kind = self._kinds.get(version, (None, None))
                shown["key"] = _versioned(key_kind, record.key, version)
            if record.value is not None:
                version = peek_version(record.value)
                shown["value"] = _versioned(value_kind, record.value, version)
        except (RemoteProtocolError, UnsupportedVersionError, struct.error) as error:
            raise FormatError(f"it holds no state of brokers: {error}") from error
        out += json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _versioned(kind: type[Data] | None, data: bytes, version: int) -> dict[str, Any]:
    if kind is None or version not in kind.__schema__.versions:
        return {"version": version, "data": "unknown"}
    return {"version": version, "data": to_json(decode_versioned(kind, data), version)}


_OFFSETS: Final = {0: (OffsetCommitKey, OffsetCommitValue), 1: (OffsetCommitKey, OffsetCommitValue)}
_GROUPS: Final = {2: (GroupMetadataKey, GroupMetadataValue)}
_TRANSACTIONS: Final = {0: (TransactionLogKey, TransactionLogValue)}

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
)
"""What JSON and CSV may hold of a record, in the order in which they do."""


class JsonFormatter(_EachRecord):
    """An object a line: text as a string, other bytes as ``{"base64": "..."}``.

    Args:
        columns: Which members; all by default.
    """

    def __init__(self, columns: Sequence[str] = COLUMNS) -> None:
        self._columns = columns

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record."""
        members = {name: _READ[name](record) for name in self._columns}
        out += json.dumps(members, separators=(",", ":"), ensure_ascii=False, default=_json_bytes).encode()
        out += b"\n"


def _json_bytes(data: object) -> object:
    assert isinstance(data, bytes)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


_READ: Final[Mapping[str, Callable[["Record[bytes, bytes]"], Any]]] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp,
    "timestamp_type": lambda record: None if record.timestamp < 0 else _timestamp_type(record),
    "key": lambda record: record.key,
    "value": lambda record: record.value,
    "headers": lambda record: record.headers,
}


class CsvFormatter(_EachRecord):
    """CSV with a header row: an empty field is null, ``""`` an empty string, bytes stand as they are.

    Args:
        columns: Which columns.
    """

    def __init__(self, columns: Sequence[str] = ("partition", "offset", "timestamp", "key", "value")) -> None:
        self._columns = columns

    def begin(self, out: bytearray) -> None:
        """Append the header row."""
        out += ",".join(self._columns).encode() + b"\n"

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record."""
        out += join_row([_csv_field(_READ[name](record)) for name in self._columns]) + b"\n"


def _csv_field(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, list | tuple):
        if not value:
            return None
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_json_bytes).encode()
    return str(value).encode()


class ColumnsFormatter(_EachRecord):
    """For the eye: time, partition and offset, key and value, below each other."""

    def begin(self, out: bytearray) -> None:
        """Append the head of the columns."""
        out += b"%-24s  %-9s  %-10s  %-20s  %s\n" % (b"TIME (UTC)", b"PARTITION", b"OFFSET", b"KEY", b"VALUE")

    def write(self, record: "Record[bytes, bytes]", out: bytearray) -> None:
        """Append a record."""
        time = "-"
        if record.timestamp >= 0:
            moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
            time = f"{moment:%Y-%m-%d %H:%M:%S}.{record.timestamp % 1000:03}"
        line = f"{time:24}  {record.partition:<9}  {record.offset:<10}  {_eye(record.key):20}  {_eye(record.value)}\n"
        out += line.encode()


def _eye(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


_DEPRECATED: Final[Mapping[str, str]] = {
    "kafka.tools.DefaultMessageFormatter": "DefaultMessageFormatter",
    "kafka.tools.LoggingMessageFormatter": "LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter": "NoOpMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": "OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": "GroupMetadataMessageFormatter",
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": "TransactionLogMessageFormatter",
}
_PACKAGE: Final = "org.apache.kafka.tools.consumer."
FORMATTERS: Final = (
    "DefaultMessageFormatter",
    "LoggingMessageFormatter",
    "NoOpMessageFormatter",
    "OffsetsMessageFormatter",
    "GroupMetadataMessageFormatter",
    "TransactionLogMessageFormatter",
)


def formatter(name: str, properties: Mapping[str, str], log: Callable[[str], None]) -> Formatter:
    """Return Kafka's formatter of a class name, with or without its package.

    Args:
        name: The name; deprecated ones are warned of.
        properties: The formatter's.
        log: Takes a line for stderr.

    Raises:
        ValueError: There is none of that name, or a property cannot be used.
    """
    if name in _DEPRECATED:
        log(
            f"WARNING: {name} is deprecated and will be removed in the next major release. "
            f"Please use {_PACKAGE}{_DEPRECATED[name]} instead"
        )
    short = _DEPRECATED.get(name) or name.removeprefix(_PACKAGE)
    if short == "LoggingMessageFormatter":
        return LoggingFormatter(properties, log)
    made: dict[str, Callable[[], Formatter]] = {
        "DefaultMessageFormatter": lambda: DefaultFormatter(properties),
        "NoOpMessageFormatter": NoOpFormatter,
        "OffsetsMessageFormatter": lambda: StateFormatter(_OFFSETS, skipped=[2]),
        "GroupMetadataMessageFormatter": lambda: StateFormatter(_GROUPS, skipped=[0, 1]),
        "TransactionLogMessageFormatter": lambda: StateFormatter(_TRANSACTIONS, skipped=[]),
    }
    if short not in made:
        raise ValueError(
            f"the formatter {name} is Java, which cannot be loaded here; there are {', '.join(FORMATTERS)}"
        )
    return made[short]()
