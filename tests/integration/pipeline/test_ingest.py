"""Ingest on a shared cluster and Spark: what reaches the table, what reaches the dead letters, and what is refused."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.failure import JobError, explain
from pipeline.jobs import ingest
from tests.integration.pipeline.conftest import receive, send

SCHEMA = "id INT NOT NULL, name STRING, delay DOUBLE, at TIMESTAMP"


@pytest.fixture
def config(cluster, make_topics, tmp_path, request):
    """A configuration for this test's own topic."""
    topic = request.node.name.replace("[", "-").rstrip("]")
    make_topics.create([topic], partitions=2)

    def make(**values: Any) -> ingest.IngestConfig:
        given = {
            "topic": (topic,), "form": "json", "schema": SCHEMA, "once": True, "partition_by": "none",
            "table": str(tmp_path / "table"),
        }  # fmt: skip
        return ingest.IngestConfig(
            bootstrap_server=cluster.bootstrap_servers,
            dead_letter_topic=f"{topic}-dead",
            **{**given, **values},
        )

    make.topic = topic
    make.send = lambda values: send(
        cluster.bootstrap_servers,
        topic,
        [{"value": v if isinstance(v, bytes) else json.dumps(v).encode()} for v in values],
    )
    return make


def test_raw_records_keep_everything(spark, cluster, config, said) -> None:
    records = [
        {"key": b"k%d" % i, "value": bytes([i]), "headers": [("h", b"\x00")], "partition": i % 2,
         "timestamp": 1_357_034_400_000 + i}
        for i in range(10)
    ]  # fmt: skip
    send(cluster.bootstrap_servers, config.topic, records)
    result = ingest.run(spark, config(form="raw", partition_by="hour"), said, said.stop)
    assert (result["rows"], result["dead_letters"]) == (10, 0)
    rows = spark.read.parquet(config().table).orderBy("timestamp").collect()
    assert [bytes(row.value) for row in rows] == [bytes([i]) for i in range(10)]
    assert {(str(row.event_date), row.event_hour) for row in rows} == {("2013-01-01", 10)}
    assert [(h.key, bytes(h.value)) for h in rows[0].headers] == [("h", b"\x00")]


def test_what_does_not_parse_goes_to_the_dead_letters(spark, cluster, config, said) -> None:
    good = [{"id": i, "name": "n", "delay": i / 2, "at": "2013-01-01T10:00:00Z"} for i in range(5)]
    bad = [b"{nonsense", b"", b"[1]", {"id": "seven"}, {"name": "no id"}]
    config.send([*good, *bad])
    result = ingest.run(spark, config(), said, said.stop)
    assert (result["rows"], result["dead_letters"]) == (5, 5)
    assert sorted(row.id for row in spark.read.parquet(config().table).collect()) == list(range(5))
    letters = receive(cluster.bootstrap_servers, config().dead_letter_topic, 1)
    by_value = {m.value(): {k: v.decode() for k, v in m.headers()} for m in letters}
    reasons = {value: headers["ottla.reason"] for value, headers in by_value.items()}
    assert reasons == {
        b"{nonsense": "the value is no JSON",
        b"": "the value is empty",
        b"[1]": "the value is no JSON of the schema's columns",
        b'{"id": "seven"}': "field id: seven is no INT",
        b'{"name": "no id"}': "field id is absent",
    }
    assert {h["ottla.topic"] for h in by_value.values()} == {config.topic}


def test_fields_that_the_schema_does_not_know_are_kept(spark, config, said) -> None:
    config.send([{"id": 1, "gate": "B7"}, {"id": 2}])
    ingest.run(spark, config(), said, said.stop)
    rows = {row.id: row.extra_fields for row in spark.read.parquet(config().table).collect()}
    assert rows == {1: {"gate": "B7"}, 2: None}


def test_a_second_run_reads_only_what_is_new_with_the_inferred_schema(spark, config, said) -> None:
    config.send([{"id": 1, "name": "a"}])
    assert ingest.run(spark, config(schema=None), said, said.stop)["rows"] == 1
    config.send([{"id": 2, "name": "b", "later": True}])
    assert ingest.run(spark, config(schema=None), said, said.stop)["rows"] == 1
    rows = {row.id: row.extra_fields for row in spark.read.parquet(config().table).collect()}
    assert rows == {1: None, 2: {"later": "true"}}


def test_a_schema_may_get_columns_later(spark, config, said) -> None:
    config.send([{"id": 1, "gate": "A1"}])
    ingest.run(spark, config(), said, said.stop)
    config.send([{"id": 2, "gate": "B7"}])
    ingest.run(spark, config(schema=f"{SCHEMA}, gate STRING"), said, said.stop)
    rows = spark.read.option("mergeSchema", "true").parquet(config().table).collect()
    assert {row.id: (row.gate, row.extra_fields) for row in rows} == {
        1: (None, {"gate": "A1"}), 2: ("B7", None)
    }  # fmt: skip
    with pytest.raises(JobError, match="column gate is STRING there and INT here"):
        ingest.run(spark, config(schema=f"{SCHEMA}, gate INT"), said, said.stop)


def test_no_option_overwrites_a_field_of_the_user(spark, config, said) -> None:
    config.send(
        [{"id": 1, "event_time": "2013-01-01T10:00:00Z", "event_date": "then", "value": "v", "reason": "r"}]
    )
    with_date = config(schema="id INT, event_date STRING", partition_by="day")
    with pytest.raises(JobError, match=r"the field event_date has the name of .* --partition-by day"):
        ingest.run(spark, with_date, said, said.stop)
    with pytest.raises(JobError, match=r"the field event_time has the name of .* --event-time"):
        ingest.run(spark, config(schema=None, event_time="event_time"), said, said.stop)
    assert not Path(config().checkpoint_path, "ottla", "schema.json").exists()
    schema = "id INT, event_time TIMESTAMP, event_date STRING, value STRING, reason STRING"
    ingest.run(spark, config(schema=schema, event_time="event_time"), said, said.stop)
    (row,) = spark.read.parquet(config().table).collect()
    assert (row.event_date, row.value, row.reason, row.event_time.hour) == ("then", "v", "r", 10)


def test_a_value_on_which_an_expression_fails_is_a_dead_letter(spark, cluster, config, said) -> None:
    config.send([{"id": 1, "name": "2013-01-01"}, {"id": 2, "name": "never"}, {"id": 3}])
    made = config(event_time="to_timestamp(name)", partition_by="day")
    result = ingest.run(spark, made, said, said.stop)
    assert (result["rows"], result["dead_letters"]) == (1, 2)
    letters = receive(cluster.bootstrap_servers, made.dead_letter_topic, 1)
    assert sorted(dict(letter.headers())["ottla.reason"] for letter in letters) == [
        b"no event time: to_timestamp(name) fails",
        b"no event time: to_timestamp(name) yields none",
    ]


def test_a_changed_type_is_refused_and_nothing_is_written(spark, config, said) -> None:
    config.send([{"id": 1}])
    ingest.run(spark, config(), said, said.stop)
    before = sorted(Path(config().table).rglob("*"))
    config.send([{"id": 2}])
    with pytest.raises(JobError, match="column id is INT there and STRING here"):
        ingest.run(spark, config(schema="id STRING"), said, said.stop)
    assert sorted(Path(config().table).rglob("*")) == before


def test_a_new_checkpoint_on_an_old_table_is_refused(spark, config, said, tmp_path) -> None:
    config.send([{"id": 1}])
    ingest.run(spark, config(), said, said.stop)
    with pytest.raises(JobError, match="another checkpoint"):
        ingest.run(spark, config(checkpoint=str(tmp_path / "other")), said, said.stop)


def test_a_damaged_checkpoint_is_one_line(spark, config, said, tmp_path) -> None:
    config.send([{"id": 1}])
    ingest.run(spark, config(), said, said.stop)
    offsets = tmp_path / "table.checkpoint" / "table" / "offsets"
    (offsets / "0").write_text("nonsense")
    (offsets / ".0.crc").unlink()
    (offsets.parent / "commits" / "0").unlink()
    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, config(), said, said.stop)
    assert "the checkpoint cannot be read" in explain(caught.value)
    assert "\n" not in explain(caught.value)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of two megabytes, to fill."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    yield folder
    # Spark may still hold a partly written file open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_shows_no_reader_half_a_batch(spark, cluster, config, said, small_disk) -> None:
    records = [{"key": b"%d" % n, "value": os.urandom(50_000), "partition": n % 2} for n in range(60)]
    acknowledged = Counter(send(cluster.bootstrap_servers, config.topic, records))
    raw = config(form="raw", table=str(small_disk / "table"), offsets_per_batch=6)

    def found() -> Counter[bytes]:
        return Counter(bytes(row.key) for row in spark.read.parquet(raw.table).select("key").collect())

    with pytest.raises(Exception, match=r".") as caught:
        ingest.run(spark, raw, said, said.stop)
    assert explain(caught.value).startswith("the disk is full: make room and start the job again")
    batches = len(said.of("progress"))
    assert found().total() == 6 * batches > 0
    assert found() < acknowledged
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    ingest.run(spark, raw, said, said.stop)
    assert found() == acknowledged


@pytest.mark.parametrize(
    ("form", "schema", "values", "reason"),
    [
        (
            "csv",
            "id INT NOT NULL, name STRING",
            [b"1,a", b"seven,b"],
            "the value is no CSV of the schema's columns",
        ),
        (
            "avro",
            '{"type":"record","name":"r","fields":[{"name":"id","type":"int"},{"name":"name","type":"string"}]}',
            [b"\x02\x02a", b"\x02\x0aa"],
            "the value is no Avro of the schema",
        ),
    ],
    ids=["csv", "avro"],
)
def test_other_forms_are_parsed(spark, cluster, config, said, form, schema, values, reason) -> None:
    config.send(values)
    result = ingest.run(spark, config(form=form, schema=schema), said, said.stop)
    assert (result["rows"], result["dead_letters"]) == (1, 1)
    assert [(row.id, row.name) for row in spark.read.parquet(config().table).collect()] == [(1, "a")]
    (letter,) = receive(cluster.bootstrap_servers, config().dead_letter_topic, 1)
    assert (letter.value(), dict(letter.headers())["ottla.reason"].decode()) == (values[1], reason)


def test_topics_of_a_pattern_are_read_as_they_appear(spark, cluster, make_topics, config, said) -> None:
    config.send([{"id": 1}])
    later = f"{config.topic}-later"
    made = []

    def on_message(kind: str, values: dict[str, Any]) -> None:
        if kind != "progress" or values["query"] != "table" or not values["rows"]:
            return
        if made:
            said.stop.request()
        else:
            made.append(later)
            make_topics.create([later], partitions=1)
            send(cluster.bootstrap_servers, later, [{"value": b'{"id": 2}'}])

    said.on_message = on_message
    ingest.run(
        spark,
        config(topic=(), topic_pattern=f"{config.topic}(-later)?", once=False, trigger_s=0.5),
        said,
        said.stop,
    )
    rows = spark.read.parquet(config().table).collect()
    assert {(row.id, row.kafka_topic) for row in rows} == {(1, config.topic), (2, later)}
