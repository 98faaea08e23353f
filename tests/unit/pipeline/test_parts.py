"""Offsets, jars, merge plans, reports, specifications and the package's zip."""

import json
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

from pipeline.aggregate_spec import parse_spec, read_spec, says_the_same
from pipeline.compaction import plan_merge
from pipeline.failure import JobError
from pipeline.jars import find_jars, require_jars
from pipeline.jobs.ingest import JOB, IngestConfig
from pipeline.offsets import parse_offsets
from pipeline.package_zip import package_zip
from pipeline.report import as_text, table_text
from pipeline.streams import lag_of
from pipeline.versions import KAFKA, SPARK


def test_offsets_are_read_and_nonsense_is_none() -> None:
    assert parse_offsets('{"t":{"0":5,"1":7}}') == {("t", 0): 5, ("t", 1): 7}
    assert parse_offsets({"t": {"0": 5}}) == {("t", 0): 5}
    for nothing in ("None", None, "[]", '{"seqNum":0}', ""):
        assert parse_offsets(nothing) == {}


def test_lag_counts_partitions_that_were_not_read_yet() -> None:
    source = {"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":8,"1":2}}'}
    assert lag_of({"sources": [source]}) == 5
    assert lag_of({"sources": [{"endOffset": "None", "latestOffset": "None"}]}) is None


def test_jars_are_found_under_mavens_names_and_ivys(tmp_path: Path) -> None:
    for number, artifact in enumerate(KAFKA.jars[1:]):
        prefix = f"{artifact.group}_" if number else ""
        (tmp_path / f"{prefix}{artifact.file_name}").touch()
    found, missing = find_jars([KAFKA], tmp_path)
    assert len(found) == len(KAFKA.jars) - 1
    assert missing == [KAFKA.jars[0]]
    with pytest.raises(JobError, match=rf"{KAFKA.jars[0].coordinate} is missing in .*--jars"):
        require_jars([KAFKA], given=tmp_path, conf={}, submit=["false"], environment={})


def test_without_network_and_jars_the_missing_artifact_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        JobError, match=r"org\.apache\.kafka:kafka-clients:.* could not be fetched .*--jars DIR"
    ):
        require_jars(
            [KAFKA], given=None, conf={"spark.jars.ivy": str(tmp_path)}, submit=["false"], environment={}
        )


def test_one_version_of_spark_is_named_everywhere() -> None:
    assert any(line.startswith(f"pyspark=={SPARK}") for line in requires("ottla") or ())


def entry(path: str, size: int) -> dict[str, Any]:
    return {"path": path, "size": size}


def test_small_neighbours_of_one_folder_are_merged_up_to_the_target() -> None:
    small = [entry(f"a/{i}", 30) for i in range(5)]
    alone, large = entry("b/0", 10), entry("a/large", 60)
    kept, groups = plan_merge([*small, alone, large], 100)
    assert groups == [small[:3], small[3:]]
    assert sorted(e["path"] for e in kept) == ["a/large", "b/0"]


def test_messages_for_people() -> None:
    values = {
        "query": "table",
        "batch": 3,
        "rows": 12345,
        "rows_per_s": 999.6,
        "lag": 7,
        "counts": {"dead_letters": 2},
    }
    assert as_text("progress", values) == "table: batch 3  12,345 rows  1,000 rows/s  lag 7  2 dead letters"
    assert as_text("failed", {"text": "why"}) == "Error: why"
    assert as_text("result", {"rows": 1000, "dead_letters": 0}) == "done: 1,000 rows  0 dead letters"
    assert as_text("result", {"sides": {}}) == ""
    assert (
        table_text("t", ["name", "n"], [["a", 1000], ["bb", None]])
        == "t\nname      n\na     1,000\nbb        -"
    )


SPEC: dict[str, Any] = {
    "source": {"topic": "t", "schema": "a INT"},
    "time": {"column": "a"},
    "window": {"size": "1 hour"},
    "aggregate": {"keys": ["k"], "measures": {"n": "count(*)"}},
    "sink": {"topic": "out"},
}


def test_a_specification_has_defaults() -> None:
    spec = parse_spec(SPEC, "")
    assert (spec.topics, spec.form, spec.emit, spec.keys, spec.join) == (
        ("t",),
        "json",
        "updates",
        {"k": "k"},
        None,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sink": {}}, "sink.topic is missing"),
        ({"sinks": {}}, r"there is no table \[sinks\]"),
        ({"window": {"size": "1 hour", "hop": "1"}}, "window.hop is unknown"),
        ({"aggregate": {"keys": ["k"]}}, "names no measure"),
        ({"aggregate": {"keys": ["n"], "measures": {"n": "1"}}}, "the name n is taken twice"),
        ({"sink": {"topic": "t"}}, "would read what it writes"),
        ({"sink": {"topic": "o", "emit": "some"}}, "sink.emit is 'some'"),
    ],
)
def test_what_is_wrong_in_a_specification_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        parse_spec({**SPEC, **change}, "")


def test_a_kept_specification_is_compared_by_what_it_says() -> None:
    spec = parse_spec(SPEC, "{}")
    text = json.dumps({name: SPEC[name] for name in reversed(SPEC)}, indent=2)
    assert says_the_same(text, spec)
    toml = """
    # a comment
    sink = {topic = "out", emit = "updates"}
    source = {topics = ["t"], schema = "a INT"}
    time = {column = "a"}
    window = {size = "1 hour"}
    aggregate = {keys = {k = "k"}, measures = {n = "count(*)"}}
    """
    assert says_the_same(toml, spec)
    assert not says_the_same(toml.replace("1 hour", "2 hours"), spec)
    assert not says_the_same("nonsense", spec)


def test_a_specification_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="No such file"):
        read_spec(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("[source")
    with pytest.raises(JobError, match="neither TOML nor JSON"):
        read_spec(str(tmp_path / "bad.toml"))


def test_the_zip_holds_what_workers_import(tmp_path: Path) -> None:
    path = package_zip(tmp_path)
    assert package_zip(tmp_path) == path
    names = set(zipfile.ZipFile(path).namelist())
    assert {
        "pipeline/__init__.py",
        "pipeline/archive/source.py",
        "wire/records/batch.py",
        "storage/names.py",
    } <= names
    assert not any(name.startswith(("cluster/", "ottla/")) for name in names)


@pytest.mark.parametrize(
    "given",
    [
        {"topic": ("dead-letters",)},
        {"topic_pattern": "dead.*"},
        {"topic_pattern": "o|d", "dead_letter_topic": "d"},
    ],
)
def test_dead_letters_are_not_read_again(given: dict[str, Any]) -> None:
    config = IngestConfig(bootstrap_server="127.0.0.1:1", table="/t", form="json", **given)
    with pytest.raises(
        JobError, match="its letters would come back for ever; give another --dead-letter-topic"
    ):
        JOB.check(config)
