"""Records are written byte for byte as kafka-console-consumer does, and so that our readers can read them back."""

import struct

import pytest

from ottla.client import Batch, Topic
from ottla.client.batch_decoding import read_partition_records
from ottla.commands.console.deserializers import DeserializationError, deserializer, java_double, java_float
from ottla.commands.console.formatters import (
    CsvFormatter,
    FormatError,
    JsonFormatter,
    formatter,
)
from ottla.commands.console.line_readers import CsvReader, JsonReader
from ottla.commands.console.records import InputRecord
from wire.records.builder import BatchBuilder
from wire.types import TopicPartition

ROWS = [
    (1700000000000, b"k1", b"v1", [("a", b"1"), ("b", None)]),
    (1700000000001, None, b"", []),
    (1700000000002, b"\xff", None, [("a", b"\xfe")]),
]


def batch_of(rows) -> Batch[bytes, bytes]:
    builder = BatchBuilder()
    for timestamp, key, value, headers in rows:
        builder.append(timestamp, key, value, headers)
    records = read_partition_records(memoryview(bytes(builder.build())), 0)
    assert records is not None
    return Batch(Topic("t"), TopicPartition("t", 2), records, 9, "raise")


def written(form, batch) -> bytes:
    out = bytearray()
    form.begin(out)
    if not form.write_all(batch, out):
        for record in batch:
            form.write(record, out)
    return bytes(out)


ALL = dict.fromkeys(
    [f"print.{name}" for name in ("timestamp", "partition", "offset", "headers", "key", "value")], "true"
)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, b"v1\n\nnull\n"),
        ({"null.literal": "-", "line.separator": "|"}, b"v1||-|"),
        ({"print.value": "false"}, b""),
        ({"print.key": "true", "print.value": " False"}, b"k1\nnull\n\xff\n"),
        (
            ALL,
            b"CreateTime:1700000000000\tPartition:2\tOffset:0\ta:1,b:null\tk1\tv1\n"
            b"CreateTime:1700000000001\tPartition:2\tOffset:1\tNO_HEADERS\tnull\t\n"
            b"CreateTime:1700000000002\tPartition:2\tOffset:2\ta:\xfe\t\xff\tnull\n",
        ),
        ({"print.headers": "true", "headers.separator": ";", "key.separator": "="},
         b"a:1;b:null=v1\nNO_HEADERS=\na:\xfe=null\n"),
    ],
)  # fmt: skip
def test_the_default_formatter(properties, expected) -> None:
    log: list[str] = []
    made = formatter("org.apache.kafka.tools.consumer.DefaultMessageFormatter", properties, log.append)
    assert written(made, batch_of(ROWS)) == expected
    assert not log


def test_timestamps_without_a_kind() -> None:
    made = formatter("DefaultMessageFormatter", {"print.timestamp": "true"}, print)
    assert written(made, batch_of([(-1, None, b"v", [])])) == b"NO_TIMESTAMP\tv\n"


def test_the_logging_formatter_logs_each_record() -> None:
    log: list[str] = []
    assert (
        written(formatter("kafka.tools.LoggingMessageFormatter", {}, log.append), batch_of(ROWS))
        == b"v1\n\nnull\n"
    )
    assert log[0].startswith("WARNING: kafka.tools.LoggingMessageFormatter is deprecated")
    assert log[1:] == [
        "CreateTime:1700000000000, key:k1, value:v1",
        "CreateTime:1700000000001, key:null value:",
        "CreateTime:1700000000002, key:�, value:null",
    ]


def test_what_is_java_is_refused() -> None:
    with pytest.raises(ValueError, match=r"com\.example\.Mine is Java"):
        formatter("com.example.Mine", {}, print)
    with pytest.raises(ValueError, match=r"the deserialiser com\.example\.Mine is Java"):
        formatter("DefaultMessageFormatter", {"value.deserializer": "com.example.Mine"}, print)


def test_records_that_are_no_state_are_an_error() -> None:
    made = formatter("OffsetsMessageFormatter", {}, print)
    with pytest.raises(FormatError, match="it holds no state of brokers"):
        written(made, batch_of([(0, b"x", b"v", [])]))


def test_json_and_csv_come_back() -> None:
    rows = batch_of(ROWS)
    lines = written(JsonFormatter(), rows).splitlines()
    expected = [InputRecord(key, value, headers, 2, timestamp) for timestamp, key, value, headers in ROWS]
    reader = JsonReader()
    assert [reader.read(line) for line in lines] == expected
    csv = CsvReader()
    table = written(CsvFormatter(("partition", "timestamp", "key", "value", "headers", "offset")), rows)
    assert [record for line in table.split(b"\n")[:-1] if (record := csv.read(line))] == expected


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", struct.pack(">q", -5), b"-5"),
        ("IntegerDeserializer", struct.pack(">i", 7), b"7"),
        ("ShortDeserializer", struct.pack(">h", -7), b"-7"),
        ("FloatDeserializer", struct.pack(">f", 0.1), b"0.1"),
        ("BooleanDeserializer", b"\1", b"true"),
        (
            "UUIDDeserializer",
            b"c0a80101-0000-0000-0000-000000000001",
            b"c0a80101-0000-0000-0000-000000000001",
        ),
        ("BytesDeserializer", b"a\\\x00", b"a\\x5C\\x00"),
        ("StringDeserializer", b"\xff", "�".encode()),
    ],
)
def test_deserializers(name, data, expected) -> None:
    assert deserializer(name)(data) == expected


@pytest.mark.parametrize(
    "name", ["LongDeserializer", "BooleanDeserializer", "VoidDeserializer", "UUIDDeserializer"]
)
def test_deserializers_refuse_other_bytes(name) -> None:
    with pytest.raises(DeserializationError):
        deserializer(name)(b"abc")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (1234567.25, "1234567.25"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e300, "1.25E300"),
        (100.0, "100.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_as_java_writes_them(number, text) -> None:
    assert java_double(number) == text


def test_floats_as_java_writes_them() -> None:
    assert java_float(struct.unpack(">f", struct.pack(">f", 3.14))[0]) == "3.14"
    assert java_float(struct.unpack(">f", struct.pack(">f", 1e10))[0]) == "1.0E10"
