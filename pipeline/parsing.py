"""Records to columns: JSON, CSV and Avro, and why a record does not fit.

A record fits if its value parses, every field of the schema takes its value, and no field that the schema calls
NOT NULL is absent. A value that does not fit is marked as such here, and never dropped.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt"
PARSED: Final = "parsed"
EXTRA: Final = "extra_fields"
FORMS: Final = ("raw", "json", "csv", "avro")


@dataclass(frozen=True, slots=True)
class Form:
    """How values are written.

    Attributes:
        name: json, csv or avro.
        schema: Their columns; None for avro, whose schema is ``avro_schema``.
        keep_extra: Keep the fields of a JSON object that the schema does not know, in a map.
        options: Spark's options of the format.
    """

    name: str
    schema: "StructType | None" = None
    avro_schema: str | None = None
    keep_extra: bool = False
    options: dict[str, str] = field(default_factory=dict)


def parse_schema(text: str) -> "StructType":
    """Read a schema given as DDL (``a INT NOT NULL, b STRING``) or as Spark's JSON.

    Raises:
        JobError: it is neither.
    """
    import json

    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        is_json = text.lstrip().startswith("{")
        found: Any = StructType.fromJson(json.loads(text)) if is_json else StructType.fromDDL(text)
        schema: StructType = found
    except (PySparkException, ValueError, KeyError) as error:
        raise JobError(f"--schema is neither DDL nor JSON: {str(error).strip().splitlines()[0]}") from None
    names = [name.lower() for name in schema.names]
    for name in names:
        if name.startswith("kafka_") or name in (CORRUPT, EXTRA) or names.count(name) > 1:
            raise JobError(f"--schema: the name {name} is taken; rename the field")
    return schema


def infer_schema(spark: "SparkSession", samples: list[str], options: dict[str, str]) -> "StructType":
    """Infer the schema of JSON objects; what is no object is left out.

    Raises:
        JobError: there is no object among them.
    """
    rows = spark.createDataFrame([(sample,) for sample in samples], "value STRING")
    settings = {"mode": "DROPMALFORMED", **options}
    schema = spark.read.options(**settings).json(rows.rdd.map(lambda row: row[0])).schema if samples else None
    if schema is None or not schema.names:
        raise JobError(
            "no schema can be inferred: the topic holds no JSON object yet; give one with --schema"
        )
    return schema


def parsed(records: "DataFrame", form: Form, *, with_reason: bool) -> "DataFrame":
    """Add the columns ``parsed`` (a struct) and ``reason``, null where a record fits.

    Args:
        records: With the connector's columns.
        form: How values are written.
        with_reason: Write the reason for people; otherwise it says only that there is one, which costs less.
    """
    from pyspark.sql import functions as F

    if form.name == "avro":
        return _avro(records, form)
    assert form.schema is not None
    text = F.col("value").cast("string")
    read = F.from_json if form.name == "json" else F.from_csv
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **form.options}
    found = records.withColumn(PARSED, read(text, _ddl(form.schema), settings))
    required = [name for name in form.schema.names if not form.schema[name].nullable]
    corrupt = F.col(PARSED)[CORRUPT].isNotNull()
    absent = [F.col(PARSED)[name].isNull() for name in required]
    reason = (
        F.when(F.col("value").isNull(), F.lit("the value is null"))
        .when(F.length(F.trim(text)) == 0, F.lit("the value is empty"))
        .when(F.col(PARSED).isNull(), F.lit(f"the value is no {form.name.upper()}"))
        .when(corrupt, _misfit(text, form) if with_reason else F.lit("misfit"))
    )
    for name, missing in zip(required, absent, strict=True):
        reason = reason.when(missing, F.lit(f"field {name} is absent"))
    if form.name == "json" and form.keep_extra:
        fields = F.from_json(text, "map<string,string>")
        known = F.array(*[F.lit(name) for name in form.schema.names])
        found = found.withColumn(EXTRA, F.map_filter(fields, lambda key, _: ~F.array_contains(known, key)))
        found = found.withColumn(EXTRA, F.when(F.size(EXTRA) > 0, F.col(EXTRA)))
    return found.withColumn("reason", reason)


def _ddl(schema: "StructType") -> str:
    """Write the schema for the parser: everything may be null, and what does not fit is kept in a column."""
    fields = [f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields]
    return ", ".join([*fields, f"`{CORRUPT}` string"])


def _misfit(text: "Column", form: Form) -> "Column":
    """Name the first field that does not take its value; where none is found, the value is malformed as a whole."""
    from pyspark.sql import functions as F

    assert form.schema is not None
    malformed = F.lit(f"the value is no {form.name.upper()} of the schema's columns")
    if form.name != "json":
        return malformed
    reason = F.when(F.try_parse_json(text).isNull(), F.lit("the value is no JSON"))
    for one in form.schema.fields:
        given = F.get_json_object(text, f"$['{one.name}']")
        said = F.concat(
            F.lit(f"field {one.name}: "),
            F.substring(given, 1, 100),
            F.lit(f" is no {one.dataType.simpleString().upper()}"),
        )
        reason = reason.when(given.isNotNull() & F.col(PARSED)[one.name].isNull(), said)
    return reason.otherwise(malformed)


def _avro(records: "DataFrame", form: Form) -> "DataFrame":
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    assert form.avro_schema is not None
    found = records.withColumn(
        PARSED, from_avro("value", form.avro_schema, {"mode": "PERMISSIVE", **form.options})
    )
    # A broken value gives a struct of nulls; Avro knows no partly read record.
    names = found.schema[PARSED].dataType.names  # type: ignore[attr-defined]
    nothing = F.lit(True)
    for name in names:
        nothing = nothing & F.col(PARSED)[name].isNull()
    reason = F.when(F.col("value").isNull(), F.lit("the value is null")).when(
        F.col(PARSED).isNull() | nothing, F.lit("the value is no Avro of the schema")
    )
    return found.withColumn("reason", reason)
