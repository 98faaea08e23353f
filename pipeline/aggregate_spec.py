"""The specification of an aggregation, as a TOML or JSON file.

[source]
topic = "flights"                      # or topics = [...]
form = "json"                          # json, csv or avro
schema = "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP"

[time]
column = "time_hour"                   # an SQL expression
watermark = "1 hour"                   # how late a record may be

[window]
size = "1 hour"
slide = "10 minutes"                   # optional

[join]                                 # optional: a static table
path = "airlines.parquet"
on = ["carrier"]

[aggregate]
keys = ["carrier"]
where = "dep_delay IS NOT NULL"        # optional

[aggregate.measures]
departures = "count(*)"
mean_delay = "avg(dep_delay)"

[sink]
topic = "delays"
emit = "updates"                       # each change, or "final": closed windows only
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pipeline.failure import JobError

_TABLES: Final[Mapping[str, frozenset[str]]] = {
    "source": frozenset(("topic", "topics", "form", "schema", "options", "starting_offsets")),
    "time": frozenset(("column", "watermark")),
    "window": frozenset(("size", "slide")),
    "join": frozenset(("path", "format", "on", "columns", "options", "kind")),
    "aggregate": frozenset(("keys", "where", "measures")),
    "sink": frozenset(("topic", "emit", "partitions")),
}
_EMITS: Final = ("updates", "final")
_RESERVED: Final = frozenset(("window_start", "window_end"))


@dataclass(frozen=True, slots=True)
class StaticJoin:
    """A table whose columns are added to each record before it is aggregated."""

    path: str
    on: tuple[str, ...]
    format: str = "parquet"
    columns: tuple[str, ...] = ()
    kind: str = "left"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateSpec:
    """A checked specification; `text` is the text that it was read from."""

    topics: tuple[str, ...]
    form: str
    schema: str
    form_options: Mapping[str, str]
    starting_offsets: str
    time_column: str
    watermark: str
    window_size: str
    window_slide: str | None
    join: StaticJoin | None
    keys: Mapping[str, str]
    where: str | None
    measures: Mapping[str, str]
    sink_topic: str
    sink_partitions: int
    emit: str
    text: str


def read_spec(path: str) -> AggregateSpec:
    """Read a specification from a file.

    Raises:
        JobError: the file cannot be read, or something in it is missing or unknown; the text names it.
    """
    try:
        text = Path(path).read_text()
        data = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise JobError(f"--spec {path}: {error.strerror}") from None
    except ValueError as error:
        raise JobError(f"--spec {path} is neither TOML nor JSON: {error}") from None
    try:
        return parse_spec(data, text)
    except JobError as error:
        raise JobError(f"--spec {path}: {error}") from None


def says_the_same(text: str, spec: AggregateSpec) -> bool:
    """Return whether a kept specification means the same as the one that was read: comments and order do not count."""
    for load in (tomllib.loads, json.loads):
        try:
            return replace(parse_spec(load(text), ""), text=spec.text) == spec
        except (ValueError, JobError):
            continue
    return False


def parse_spec(data: Any, text: str) -> AggregateSpec:
    """Check a specification that was read.

    Raises:
        JobError: something is missing or unknown.
    """
    _require_known(data)
    source, time, window = _table(data, "source"), _table(data, "time"), _table(data, "window")
    aggregate, sink = _table(data, "aggregate"), _table(data, "sink")
    topics = _names(source.get("topics") or [_value(source, "source", "topic")], "source.topics")
    form = str(source.get("form", "json"))
    if form not in ("json", "csv", "avro"):
        raise JobError(f"source.form is {form!r}; it is one of json, csv, avro")
    measures = aggregate.get("measures")
    if not isinstance(measures, dict) or not measures:
        raise JobError("[aggregate.measures] names no measure")
    keys = aggregate.get("keys", [])
    keys = {str(k): str(v) for k, v in keys.items()} if isinstance(keys, dict) else {
        name: name for name in _names(keys, "aggregate.keys")
    }  # fmt: skip
    clash = (set(keys) & set(measures)) | ((set(keys) | set(measures)) & _RESERVED)
    if clash:
        raise JobError(f"the name {sorted(clash)[0]} is taken twice among keys, measures and the window")
    emit = str(sink.get("emit", "updates"))
    if emit not in _EMITS:
        raise JobError(f"sink.emit is {emit!r}; it is one of {', '.join(_EMITS)}")
    sink_topic = _value(sink, "sink", "topic")
    if sink_topic in topics:
        raise JobError(
            f"sink.topic {sink_topic} is a topic of [source]: the aggregation would read what it writes"
        )
    slide = window.get("slide")
    return AggregateSpec(
        topics=topics,
        form=form,
        schema=_value(source, "source", "schema"),
        form_options={str(k): str(v) for k, v in source.get("options", {}).items()},
        starting_offsets=str(source.get("starting_offsets", "earliest")),
        time_column=_value(time, "time", "column"),
        watermark=str(time.get("watermark", "1 hour")),
        window_size=_value(window, "window", "size"),
        window_slide=None if slide is None else str(slide),
        join=_join(data["join"]) if "join" in data else None,
        keys=keys,
        where=aggregate.get("where"),
        measures={str(name): str(expression) for name, expression in measures.items()},
        sink_topic=sink_topic,
        sink_partitions=int(sink.get("partitions", -1)),
        emit=emit,
        text=text,
    )


def _join(table: Any) -> StaticJoin:
    on = _names(table.get("on"), "join.on")
    if not on:
        raise JobError("join.on names no column")
    return StaticJoin(
        path=_value(table, "join", "path"),
        on=on,
        format=str(table.get("format", "parquet")),
        columns=_names(table.get("columns", []), "join.columns"),
        kind=str(table.get("kind", "left")),
        options={str(k): str(v) for k, v in table.get("options", {}).items()},
    )


def _require_known(data: Any) -> None:
    if not isinstance(data, dict):
        raise JobError("it is no table of settings")
    for name, table in data.items():
        if name not in _TABLES:
            raise JobError(f"there is no table [{name}]; there are {', '.join(_TABLES)}")
        if not isinstance(table, dict):
            raise JobError(f"{name} is no table")
        unknown = sorted(set(table) - _TABLES[name])
        if unknown:
            raise JobError(f"{name}.{unknown[0]} is unknown; [{name}] has {', '.join(sorted(_TABLES[name]))}")


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in data:
        raise JobError(f"[{name}] is missing")
    table: Mapping[str, Any] = data[name]
    return table


def _value(table: Mapping[str, Any], name: str, key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise JobError(f"{name}.{key} is missing")
    return value


def _names(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise JobError(f"{what} is no list of names")
    return tuple(values)
