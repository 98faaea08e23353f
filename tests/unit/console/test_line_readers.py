"""Lines become records as in kafka-console-producer; JSON lines and CSV are read as the consumer writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.commands.console.csv_lines import join_open_quotes, join_row, split_row
from ottla.commands.console.line_readers import CsvReader, JsonReader, LineReader
from ottla.commands.console.records import InputRecord, LineError

KEYED = {"parse.key": "true"}
BOTH = {"parse.key": "true", "parse.headers": "TRUE"}


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", InputRecord(None, b"a\tb")),
        ({}, b"", InputRecord(None, b"")),
        ({}, b"\xff\xfe\r", InputRecord(None, b"\xff\xfe\r")),
        (KEYED, b"a\tb\tc", InputRecord(b"a", b"b\tc")),
        (KEYED, b"\t", InputRecord(b"", b"")),
        (KEYED | {"key.separator": "::"}, b"a::b", InputRecord(b"a", b"b")),
        (KEYED | {"ignore.error": "true"}, b"ab", InputRecord(None, b"ab")),
        (KEYED | {"null.marker": "NULL"}, b"NULL\tNULL", InputRecord(None, None)),
        (BOTH, b"h1:v1,h2:v2\tk\tv", InputRecord(b"k", b"v", [("h1", b"v1"), ("h2", b"v2")])),
        (BOTH, b"h1:v:1,\tk\tv", InputRecord(b"k", b"v", [("h1", b"v:1")])),
        (BOTH | {"null.marker": "N"}, b"N\tk\tv", InputRecord(b"k", b"v")),
        (BOTH | {"null.marker": "N"}, b"h:N\tN\tN", InputRecord(None, None, [("h", None)])),
        (BOTH | {"ignore.error": "true"}, b"h1\tk\tv", InputRecord(b"k", b"v", [("h1", None)])),
        (
            {"parse.headers": "true", "headers.delimiter": "|"}
            | {"headers.separator": "[;.]", "headers.key.separator": "="},
            b"a=1;b=2.c=3|v",
            InputRecord(None, b"v", [("a", b"1"), ("b", b"2"), ("c", b"3")]),
        ),
    ],
)  # fmt: skip
def test_lines_are_split_as_kafka_splits_them(properties, line, expected) -> None:
    assert LineReader(properties).read(line) == expected


def test_a_missing_separator_names_its_line() -> None:
    reader = LineReader(KEYED)
    reader.read(b"a\tb")
    with pytest.raises(LineError, match="No key separator found on line number 2: 'ab'"):
        reader.read(b"ab")
    with pytest.raises(LineError, match="No headers delimiter found on line number 1"):
        LineReader(BOTH).read(b"ab")
    with pytest.raises(LineError, match="No header key separator found in pair 'h' on line number 1"):
        LineReader(BOTH).read(b"h\tk\tv")
    with pytest.raises(LineError, match="null marker 'N'"):
        LineReader(BOTH | {"null.marker": "N"}).read(b"N:1\tk\tv")


@pytest.mark.parametrize(
    "properties",
    [
        {"headers.delimiter": ","},
        {"headers.delimiter": ":"},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"null.marker": ","},
        {"null.marker": ":"},
    ],
)
def test_separators_are_different(properties) -> None:
    with pytest.raises(ValueError, match="may not be equal"):
        LineReader(properties)


def test_json_lines() -> None:
    reader = JsonReader()
    assert reader.read(b" ") is None
    assert reader.read(b'{"value":"v","offset":3,"topic":"t"}') == InputRecord(None, b"v", [])
    line = b'{"key":{"base64":"/w=="},"value":null,"headers":[["a",null]],"partition":2,"timestamp":7}'
    assert reader.read(line) == InputRecord(b"\xff", None, [("a", None)], 2, 7)
    assert reader.read(b'{"value":{"a":[1]},"headers":{"a":"b"}}') == InputRecord(
        None, b'{"a":[1]}', [("a", b"b")]
    )
    for bad, reason in (
        (b"x", "line 5 is no JSON"),
        (b"[]", "line 6 holds no JSON object"),
        (b'{"val":1}', "line 7: 'val' is none of"),
        (b'{"partition":"1"}', 'line 8: the partition "1" is no number'),
        (b'{"value":{"base64":"!"}}', "line 9: no base64"),
        (b'{"headers":[1]}', "line 10: headers are"),
    ):
        with pytest.raises(LineError, match=reason):
            reader.read(bad)


def test_csv_rows() -> None:
    reader = CsvReader()
    assert reader.read(b"partition,key,value,headers") is None
    assert reader.read(b'0,"",,') == InputRecord(b"", None, [], 0, None)
    assert reader.read(b',k,"a,""b""","[[""h"",""1""]]"\r') == InputRecord(b"k", b'a,"b"', [("h", b"1")])
    assert reader.read(b',k,"two') is None
    assert reader.is_inside
    assert reader.read(b'lines",') == InputRecord(b"k", b"two\nlines", [])
    assert not reader.is_inside
    with pytest.raises(LineError, match="line 6 has 1 fields, and the header 4"):
        reader.read(b"x")
    with pytest.raises(LineError, match="the partition 'x' is no number"):
        reader.read(b"x,,,")
    with pytest.raises(LineError, match="'keys' is none of them"):
        CsvReader().read(b"keys,value")


@given(
    st.lists(
        st.none() | st.binary(max_size=8) | st.sampled_from([b",", b'"', b'""', b"\n", b"\r"]), min_size=1
    )
)
def test_rows_of_csv_come_back(fields: list[bytes | None]) -> None:
    whole: bytes | None = None
    rest = b""
    for line in join_row(fields).split(b"\n"):
        assert whole is None
        whole, rest = join_open_quotes(rest, line)
    assert rest == b""
    assert whole is not None
    assert split_row(whole) == fields
