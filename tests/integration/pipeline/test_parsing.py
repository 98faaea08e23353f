"""How a record's value becomes a row, on tables made in Spark, without a cluster."""

import json

import pytest
from pyspark.sql import functions as F

from pipeline.failure import JobError
from pipeline.parsing import PARSED, REASON, Form, infer_schema, parse_schema, parsed
from pipeline.tried import tried

AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
)


@pytest.fixture
def parse(spark):
    """Parse values; return each one's fields, or the reason why it does not fit."""

    def parse_all(form, values):
        rows = [(bytearray(value), offset) for offset, value in enumerate(values)]
        records = spark.createDataFrame(rows, "value binary, offset long")
        found = []
        for with_reason in (False, True):
            rows = parsed(records, form, with_reason=with_reason).orderBy("offset").collect()
            found.append([row[REASON] or row[PARSED].asDict(recursive=True) for row in rows])
        short, full = found
        assert [isinstance(each, str) for each in short] == [isinstance(each, str) for each in full]
        return full

    return parse_all


def test_a_json_value_is_one_document(parse) -> None:
    form = Form("json", schema=parse_schema("id INT, value STRING"))
    good = [b'{"id":1,"value":"a"}', b' {"id":1,"value":"a"}\n']
    more = [
        b'{"id":1} {"id":2}', b'{"id":1},{"id":2}', b'{"id":1} junk', b'{"id":1}} ', b'{"id":1}] {}',
        b'{"id":1},"_ottla_end":"1"} {',
    ]  # fmt: skip
    found = parse(form, [*good, *more, b"null", b'[{"id":1}]', b'{"id":1', b'{"id":"x"}'])
    assert found == [
        *[{"id": 1, "value": "a"}] * len(good),
        *["the value goes on after its JSON document"] * len(more),
        *["the value is no JSON of the schema's columns"] * 2,
        "the value is no JSON",
        "field id: x is no INT",
    ]


def test_an_avro_value_is_one_record(parse) -> None:
    record = b"\x02\x02\x02a"
    header = b"\0\0\0\0\7"
    found = parse(
        Form("avro", avro_schema=AVRO_SCHEMA), [record, b"\0\0", header + record, record + b"x", b"\2\2\x0aa"]
    )
    assert found == [
        {"id": 1, "name": "a"},
        {"id": 0, "name": None},
        "the value goes on after its Avro record; it may begin with a schema registry's 5 bytes",
        "the value goes on after its Avro record",
        "the value is no Avro of the schema",
    ]


def test_an_avro_record_of_nothing_but_nulls_is_a_row(parse) -> None:
    fields = [{"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    assert parse(Form("avro", avro_schema=schema), [b"\0"]) == [{"name": None}]


def test_inferred_names_may_have_dashes_and_differ_in_case(spark, parse) -> None:
    value = '{"a-b":1,"Id":2,"id":3,"n":{"x-y":4},"m":{"k":5,"K":6}}'
    schema = infer_schema(spark, [value], {})
    assert schema.names == ["Id", "a-b", "m", "n"]
    (row,) = parse(Form("json", schema=parse_schema(schema.json())), [value.encode()])
    assert row == {"Id": 2, "a-b": 1, "m": '{"k":5,"K":6}', "n": {"x-y": 4}}
    with pytest.raises(JobError, match="the field id differs from another in case only"):
        infer_schema(spark, [value], {}, keep_extra=False)


@pytest.mark.parametrize(
    "expression", ["1 div d", "(1 div d) + (1 div d)", "to_timestamp(text)", "cast(text as int)"]
)
def test_an_expression_that_fails_is_told_from_one_that_yields_nothing(spark, expression) -> None:
    rows = spark.createDataFrame([("2013", 1), ("bad", 0), (None, None)], "text STRING, d INT")
    rows = rows.withColumn("one", tried({"it": F.expr(expression)}, ~F.col("text").eqNullSafe("other")))
    # The value is used twice, as with a reason: Spark evaluates common subexpressions first.
    rows = rows.withColumn("it", F.col("one.it")).withColumn("failed", F.col("one").isNull())
    assert [(row.it is None, row.failed) for row in rows.collect()] == [
        (False, False),
        (True, True),
        (True, False),
    ]
