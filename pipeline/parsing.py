"""Converting records to columns: JSON, CSV and Avro, and why a record does not fit.

A record fits if its value parses to its end, every field of the schema accepts its value, and no field that the schema
calls NOT NULL is absent. A value that does not fit is marked as such here, and never dropped.

Spark's parsers stop where a document ends, whatever follows. So JSON and Avro are parsed inside a frame: the value,
then a mark. The mark is found after the value only if the value was read to its end, and it costs no second parse.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT: Final = "_ottla_corrupt"
PARSED: Final = "_ottla_parsed"
REASON: Final = "_ottla_reason"
EXTRA: Final = "extra_fields"
PLACE: Final = ("topic", "partition", "offset", "timestamp", "key")
"""The connector's columns that are kept beside the fields, as ``kafka_topic`` and so on."""
FORMS: Final = ("raw", "json", "csv", "avro")
_FRAME: Final = "_ottla_frame"
_VALUE: Final = "_ottla_value"
_END: Final = "_ottla_end"
_AVRO_END: Final = b"\xf1Ottla!\xf1"


@dataclass(frozen=True, slots=True)
class Form:
    """The format of values.

    Attributes:
        name: json, csv or avro.
        schema: Their columns; None for avro, whose schema is ``avro_schema``.
        keep_extra: Keep the fields of a JSON object that are not in the schema, in a map.
        options: Spark's options of the format.
    """

    name: str
    schema: "StructType | None" = None
    avro_schema: str | None = None
    keep_extra: bool = False
    options: dict[str, str] = field(default_factory=dict)


def parse_schema(text: str) -> "StructType":
    """Parse a schema given as DDL (``a INT NOT NULL, b STRING``) or as Spark's JSON.

    Raises:
        JobError: it is neither.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        is_json = text.lstrip().startswith("{")
        found: Any = StructType.fromJson(json.loads(text)) if is_json else StructType.fromDDL(text)
        schema: StructType = found
    except (PySparkException, ValueError, KeyError) as error:
        raise JobError(f"--schema is neither DDL nor JSON: {str(error).strip().splitlines()[0]}") from None
    require_free_names(schema.names, {})
    return schema


def require_free_names(names: Collection[str], added: Mapping[str, str]) -> None:
    """Refuse fields whose names the job needs for its own columns: one of the two would overwrite the other.

    Args:
        names: The fields' names. Spark ignores their case.
        added: The columns that the job adds beside the record's place, each with the option that adds it.

    Raises:
        JobError: naming the field, and the option to change where there is one.
    """
    lower = [name.lower() for name in names]
    for name in lower:
        if lower.count(name) > 1:
            raise JobError(
                f"--schema: two fields are named {name}; names that differ in case only are the same"
            )
        if name in added:
            raise JobError(
                f"the field {name} has the name of the column that {added[name]} adds: "
                "rename the field in --schema, or change that option"
            )
        if name in (f"kafka_{place}" for place in PLACE) or name.startswith("_ottla_"):
            raise JobError(f"--schema: the name {name} is taken; rename the field")


def infer_schema(
    spark: "SparkSession", samples: list[str], options: dict[str, str], *, keep_extra: bool = True
) -> "StructType":
    """Infer the schema of JSON objects; other values are left out.

    Raises:
        JobError: there is no object among them, or two fields differ in case only and ``keep_extra`` is off.
    """
    rows = spark.createDataFrame([(sample,) for sample in samples], "value STRING")
    settings = {"mode": "DROPMALFORMED", **options}
    schema = spark.read.options(**settings).json(rows.rdd.map(lambda row: row[0])).schema if samples else None
    if schema is None or not schema.names:
        raise JobError(
            "no schema can be inferred: the topic holds no JSON object yet; give one with --schema"
        )
    found = without_case_twins(schema)
    lost = sorted(set(schema.names) - set(found.names))
    if lost and not keep_extra:
        raise JobError(
            f"no schema can be inferred: the field {lost[0]} differs from another in case only; "
            "give one with --schema, or leave out --no-extra-fields"
        )
    return found


def without_case_twins(schema: "StructType") -> "StructType":
    """Return a schema without names that differ in case only, which Spark regards as equal.

    Of such fields the first stays; the others are extra fields. An object with such names inside a field is kept as its
    JSON text.
    """
    from pyspark.sql.types import StringType, StructType

    fields: dict[str, Any] = {}
    for one in schema.fields:
        kind = StringType() if _has_case_twins(one.dataType) else one.dataType
        fields.setdefault(one.name.lower(), type(one)(one.name, kind, one.nullable))
    return StructType(list(fields.values()))


def _has_case_twins(kind: Any) -> bool:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        return _has_case_twins(kind.elementType)
    if not isinstance(kind, StructType):
        return False
    names = {name.lower() for name in kind.names}
    return len(names) < len(kind.names) or any(_has_case_twins(one.dataType) for one in kind.fields)


def parsed(records: "DataFrame", form: Form, *, with_reason: bool) -> "DataFrame":
    """Add the columns `PARSED` (a struct) and `REASON`, null where a record fits.

    Args:
        records: With the connector's columns.
        form: The format of values.
        with_reason: Write the reason for people; otherwise the column only shows that there is one, which costs less.
    """
    if form.name == "avro":
        return _avro(records, form)
    return _json(records, form, with_reason) if form.name == "json" else _csv(records, form)


def _json(records: "DataFrame", form: Form, with_reason: bool) -> "DataFrame":
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    assert form.schema is not None
    text, mark = F.col("value").cast("string"), F.col("offset").cast("string")
    fields = [(_VALUE, form.schema), (_END, StringType()), (CORRUPT, StringType())]
    frame = StructType([StructField(name, kind) for name, kind in fields])
    # The newline closes a comment, which a reader's option may allow. No value knows its own offset.
    framed = F.concat(F.lit(f'{{"{_VALUE}":'), text, F.lit(f'\n,"{_END}":"'), mark, F.lit('"}'))
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **form.options}
    found = records.withColumn(_FRAME, F.from_json(framed, frame, settings))
    found = found.withColumn(PARSED, F.col(_FRAME)[_VALUE])
    cut_short = ~F.col(_FRAME)[_END].eqNullSafe(mark)
    unfit = F.col(_FRAME)[CORRUPT].isNotNull() | cut_short | F.col(PARSED).isNull()
    misfit = _misfit(text, form, cut_short) if with_reason else F.lit("misfit")
    reason = _absent(_empty(text).when(unfit, misfit), form.schema)
    if form.keep_extra:
        extra = F.from_json(text, "map<string,string>")
        known = F.array(*[F.lit(name) for name in form.schema.names])
        found = found.withColumn(EXTRA, F.map_filter(extra, lambda key, _: ~F.array_contains(known, key)))
        found = found.withColumn(EXTRA, F.when(F.size(EXTRA) > 0, F.col(EXTRA)))
    return found.withColumn(REASON, reason)


def _csv(records: "DataFrame", form: Form) -> "DataFrame":
    from pyspark.sql import functions as F

    assert form.schema is not None
    text = F.col("value").cast("string")
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **form.options}
    found = records.withColumn(PARSED, F.from_csv(text, _ddl(form.schema), settings))
    unfit = F.col(PARSED)[CORRUPT].isNotNull() | F.col(PARSED).isNull()
    reason = _empty(text).when(unfit, F.lit("the value is no CSV of the schema's columns"))
    return found.withColumn(REASON, _absent(reason, form.schema))


def _empty(text: "Column") -> "Column":
    """Begin a reason with the values that are empty."""
    from pyspark.sql import functions as F

    return F.when(F.col("value").isNull(), F.lit("the value is null")).when(
        F.length(F.trim(text)) == 0, F.lit("the value is empty")
    )


def _absent(reason: "Column", schema: "StructType") -> "Column":
    """Add to a reason the absent fields that are NOT NULL."""
    from pyspark.sql import functions as F

    for one in schema.fields:
        if not one.nullable:
            reason = reason.when(F.col(PARSED)[one.name].isNull(), F.lit(f"field {one.name} is absent"))
    return reason


def _ddl(schema: "StructType") -> str:
    """Write the schema for the CSV parser: all fields may be null, and a line that does not fit is kept in a column."""
    quoted = [(field.name.replace("`", "``"), field.dataType.simpleString()) for field in schema.fields]
    return ", ".join([*(f"`{name}` {kind}" for name, kind in quoted), f"`{CORRUPT}` string"])


def _misfit(text: "Column", form: Form, cut_short: "Column") -> "Column":
    """Name the first field that does not accept its value; where there is none, the whole value is malformed."""
    from pyspark.sql import functions as F

    assert form.schema is not None
    reason = F.when(F.try_parse_json(text).isNull(), F.lit("the value is no JSON"))
    reason = reason.when(cut_short, F.lit("the value goes on after its JSON document"))
    for one in form.schema.fields:
        given = F.get_json_object(text, f"$['{one.name}']")
        said = F.concat(
            F.lit(f"field {one.name}: "),
            F.substring(given, 1, 100),
            F.lit(f" is no {one.dataType.simpleString().upper()}"),
        )
        reason = reason.when(given.isNotNull() & F.col(PARSED)[one.name].isNull(), said)
    return reason.otherwise(F.lit("the value is no JSON of the schema's columns"))


def _avro(records: "DataFrame", form: Form) -> "DataFrame":
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    assert form.avro_schema is not None
    options = {"mode": "PERMISSIVE", **form.options}
    if "avroSchema" in options:
        options["avroSchema"] = avro_frame(options["avroSchema"])
    mark = F.lit(bytearray(_AVRO_END))
    found = records.withColumn(
        _FRAME, from_avro(F.concat("value", mark), avro_frame(form.avro_schema), options)
    ).withColumn(PARSED, F.col(_FRAME)[_VALUE])
    end = F.col(_FRAME)[_END]
    has_header = (F.length("value") > 5) & (F.substring("value", 1, 1) == F.lit(bytearray(1)))
    reason = (
        F.when(F.col("value").isNull(), F.lit("the value is null"))
        .when(end.isNull(), F.lit("the value is no Avro of the schema"))
        .when(
            (end != mark) & has_header,
            F.lit("the value goes on after its Avro record; it may begin with a schema registry's 5 bytes"),
        )
        .when(end != mark, F.lit("the value goes on after its Avro record"))
    )
    return found.withColumn(REASON, reason)


def avro_frame(text: str) -> str:
    """Return the Avro schema of a value of the given schema with the mark after it.

    Raises:
        JobError: it is not JSON, or not a record's schema.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise JobError(f"--schema is no Avro schema, as it is no JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise JobError("--schema is no Avro schema of a record")
    end = {"type": "fixed", "name": _END, "size": len(_AVRO_END)}
    fields = [{"name": _VALUE, "type": schema}, {"name": _END, "type": end}]
    return json.dumps({"type": "record", "name": _FRAME, "fields": fields})
