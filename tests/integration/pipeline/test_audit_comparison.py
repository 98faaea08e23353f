"""Which records audit considers equal: on tables made in Spark, without a cluster."""

import pytest

from pipeline.auditing import compare, digest_of_record

RECORD = (
    "id string, partition int, offset long, key string, value string, "
    "headers array<struct<key:string,value:binary>>"
)


@pytest.fixture
def difference(spark):
    """Compare two lists of (id, key, value, headers)."""

    def compared(this, other, by=("id",)):
        def side(records):
            rows = [
                (each[0], 0, place, *each[1:3], [(k, v and bytearray(v)) for k, v in headers or ()] or None)
                for place, each in enumerate(records)
                for headers in [each[3] if len(each) > 3 else None]
            ]
            made = spark.createDataFrame(rows, RECORD)
            return made.select("id", "partition", "offset", digest_of_record().alias("digest"))

        found = compare(side(this), side(other), by, examples=3)
        return {name: count for name, count in found.items() if count}

    return compared


def test_two_equal_records_do_not_cancel_out(difference) -> None:
    this = [("a", "k", "one"), ("a", "k", "one")]
    other = [("a", "k", "two"), ("a", "k", "two")]
    assert difference(this, other) == {"other_content": 1, "examples": ["other_content: a"]}
    assert difference(this, this) == {}


def test_records_without_an_identity_are_compared_with_one_another(difference) -> None:
    this = [(None, None, "one"), (None, None, "two")]
    assert difference(this, this[::-1]) == {}
    assert difference(this, [this[0], this[0]]) == {"other_content": 1, "examples": ["other_content: no id"]}
    assert difference(this, this, ("partition", "offset")) == {}


@pytest.mark.parametrize(
    ("this", "other"),
    [
        ((None, "x", None), (None, None, "x")),
        ((None, "x", ""), (None, "x", None)),
        ((None, "x", "v", [("h", b"1")]), (None, "x", "v")),
        ((None, "x", "v", [("h", b"1")]), (None, "x", "v", [("h", b"2")])),
        ((None, "x", "v", [("h", None)]), (None, "x", "v", [("h", b"")])),
        ((None, "x", "v", [("a", b"1"), ("b", b"2")]), (None, "x", "v", [("b", b"2"), ("a", b"1")])),
    ],
    ids=["key or value", "null or empty", "header", "header value", "null header", "header order"],
)
def test_what_differs_in_a_record_is_noticed(difference, this, other) -> None:
    assert difference([this], [this]) == {}
    assert difference([this], [other]) == {"other_content": 1, "examples": ["other_content: no id"]}
