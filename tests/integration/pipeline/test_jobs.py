"""Publish, aggregate, audit, archive and compaction on a shared cluster and Spark."""

import json
import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla.client.partitioners import murmur2
from pipeline.compaction import compact_table
from pipeline.failure import JobError
from pipeline.job_files import JobFiles
from pipeline.jobs import aggregate, audit, ingest, publish
from pipeline.tables import committed_files, local_path
from tests.integration.pipeline.conftest import receive, send


@pytest.fixture
def topic(make_topics, request) -> str:
    """This test's own topic."""
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
    make_topics.create([name], partitions=2)
    return name


SPEC = """
[source]
topic = "{topic}"
schema = "carrier STRING, delay DOUBLE, at TIMESTAMP"
[time]
column = "at"
watermark = "1 hour"
[window]
size = "1 hour"
[join]
path = "{names}"
format = "json"
on = ["carrier"]
[aggregate]
keys = ["carrier", "name"]
[aggregate.measures]
flights = "count(*)"
delay = "avg(delay)"
[sink]
topic = "{topic}-hours"
partitions = 1
"""


def departure(carrier: str, at: str, delay: float) -> dict[str, bytes]:
    return {"value": json.dumps({"carrier": carrier, "at": f"2013-01-01T{at}Z", "delay": delay}).encode()}


def test_windows_are_upserted_and_late_records_are_dropped(spark, cluster, topic, said, tmp_path) -> None:
    (tmp_path / "names.json").write_text('{"carrier":"AA","name":"American"}\n')
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(topic=topic, names=tmp_path / "names.json"))
    config = aggregate.AggregateConfig(
        bootstrap_server=cluster.bootstrap_servers, spec=str(spec), checkpoint=str(tmp_path / "c"), once=True
    )
    send(
        cluster.bootstrap_servers,
        topic,
        [
            departure("AA", "10:05:00", 10),
            departure("AA", "10:50:00", 20),
            departure("ZZ", "13:00:00", 0),
            {"value": b"x"},
        ],
    )
    first = aggregate.run(spark, config, said, said.stop)
    assert (first["rows"], first["upserts"], first["unparsed"]) == (4, 2, 1)
    # The watermark stands at 12:00 now: ten o'clock is closed, twelve o'clock is not.
    send(cluster.bootstrap_servers, topic, [departure("AA", "10:55:00", 99), departure("AA", "12:30:00", 5)])
    second = aggregate.run(spark, config, said, said.stop)
    assert (second["upserts"], second["late_groups"]) == (1, 1)
    table = {}
    for message in receive(cluster.bootstrap_servers, f"{topic}-hours", 1):
        table[message.key()] = json.loads(message.value())
    found = {
        (v["carrier"], v["window_start"][11:13]): (v["name"], v["flights"], v["delay"])
        for v in table.values()
    }
    assert found == {
        ("AA", "10"): ("American", 2, 15.0),
        ("ZZ", "13"): (None, 1, 0.0),
        ("AA", "12"): ("American", 1, 5.0),
    }


def test_a_spec_that_changed_is_refused(spark, cluster, topic, said, tmp_path) -> None:
    (tmp_path / "names.json").write_text('{"carrier":"AA","name":"American"}\n')
    spec = tmp_path / "spec.toml"
    config = aggregate.AggregateConfig(
        bootstrap_server=cluster.bootstrap_servers, spec=str(spec), checkpoint=str(tmp_path / "c"), once=True
    )
    spec.write_text(SPEC.format(topic=topic, names=tmp_path / "names.json"))
    aggregate.run(spark, config, said, said.stop)
    spec.write_text(spec.read_text().replace("1 hour", "2 hours"))
    with pytest.raises(JobError, match="another specification"):
        aggregate.run(spark, config, said, said.stop)


@pytest.mark.parametrize("timestamp", [None, "timestamp_millis(at)"], ids=["connector", "timestamps"])
def test_publish_sends_each_file_once(spark, cluster, topic, said, tmp_path, timestamp) -> None:
    source = tmp_path / "files"
    source.mkdir()
    config = publish.PublishConfig(
        bootstrap_server=cluster.bootstrap_servers, source=str(source), source_format="json", topic=topic,
        key="id", value="to_json(struct(name))", header={"origin": "'test'"}, partition="id % 2",
        timestamp=timestamp, checkpoint=str(tmp_path / "c"),
    )  # fmt: skip
    for number in range(2):
        rows = ({"id": 2 * number + i, "name": "é", "at": 1_357_034_400_000} for i in range(2))
        (source / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        assert publish.run(spark, config, said, said.stop)["rows"] == 2
    messages = receive(cluster.bootstrap_servers, topic, 2)
    assert sorted(m.key() for m in messages) == [b"0", b"1", b"2", b"3"]
    assert all(m.partition() == int(m.key()) % 2 for m in messages)
    assert {(m.value().decode(), tuple(m.headers())) for m in messages} == {
        ('{"name":"é"}', (("origin", b"test"),))
    }
    assert (timestamp is None) or {m.timestamp()[1] for m in messages} == {1_357_034_400_000}


def publication(cluster, topic, tmp_path, **values) -> publish.PublishConfig:
    """Return the settings of a transactional publication of numbers, in files of JSON."""
    (tmp_path / "files").mkdir(exist_ok=True)
    given = {
        "bootstrap_server": cluster.bootstrap_servers, "source": str(tmp_path / "files"), "source_format": "json",
        "schema": "id BIGINT", "topic": topic, "key": "id", "value": "id", "checkpoint": str(tmp_path / "c"),
        "transactional": True,
    }  # fmt: skip
    return publish.PublishConfig(**{**given, **values})


def write_numbers(tmp_path: Path, name: str, numbers: range) -> None:
    (tmp_path / "files").mkdir(exist_ok=True)
    (tmp_path / "files" / name).write_text("".join(f'{{"id": {n}}}\n' for n in numbers))


def committed(cluster, topic: str) -> list[int]:
    messages = receive(cluster.bootstrap_servers, topic, 2, **{"isolation.level": "read_committed"})
    return sorted(int(message.value()) for message in messages)


def test_a_transactional_publication_sends_no_batch_twice(spark, cluster, topic, said, tmp_path) -> None:
    config = publication(cluster, topic, tmp_path)
    for number in range(2):
        write_numbers(tmp_path, f"{number}.json", range(100 * number, 100 * number + 100))
        assert publish.run(spark, config, said, said.stop)["rows"] == 100
    assert committed(cluster, topic) == list(range(200))
    # As if the job had stopped before Spark noted the end of its last batch: the batch runs again, and changes nothing.
    (tmp_path / "c" / "stream" / "commits" / "1").unlink()
    (tmp_path / "c" / "stream" / "commits" / ".1.crc").unlink()
    assert publish.run(spark, config, said, said.stop)["batches"] == 1
    assert committed(cluster, topic) == list(range(200))
    places = {m.key(): m.partition() for m in receive(cluster.bootstrap_servers, topic, 2)}
    # Partitions are chosen as by every Java producer and the connector's sink.
    assert places == {key: (murmur2(key) & 0x7FFFFFFF) % 2 for key in places}


def test_a_transactional_publication_whose_progress_is_gone_is_refused(
    spark, cluster, topic, said, tmp_path
) -> None:
    config = publication(cluster, topic, tmp_path)
    write_numbers(tmp_path, "0.json", range(10))
    publish.run(spark, config, said, said.stop)
    name = json.loads((tmp_path / "c" / "ottla" / "transactions.json").read_text())["name"]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_consumer_groups([name])[name].result(60)
    # No batch was interrupted: the next one needs no progress.
    write_numbers(tmp_path, "1.json", range(10, 20))
    publish.run(spark, config, said, said.stop)
    assert committed(cluster, topic) == list(range(20))
    (tmp_path / "c" / "stream" / "commits" / "1").unlink()
    (tmp_path / "c" / "stream" / "commits" / ".1.crc").unlink()
    admin.delete_consumer_groups([name])[name].result(60)
    with pytest.raises(JobError, match="has forgotten how far it got"):
        publish.run(spark, config, said, said.stop)


def test_a_transactional_publication_needs_the_same_rows_again(spark, cluster, topic, said, tmp_path) -> None:
    write_numbers(tmp_path, "0.json", range(10))
    with pytest.raises(JobError, match=r"rand\(.*another value each time"):
        publish.run(spark, publication(cluster, topic, tmp_path, value="rand()"), said, said.stop)
    publish.run(spark, publication(cluster, topic, tmp_path), said, said.stop)
    with pytest.raises(JobError, match="of another publication"):
        publish.run(spark, publication(cluster, topic, tmp_path, transactional=False), said, said.stop)


def test_jobs_read_committed_data_only(spark, cluster, topic, said, tmp_path) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    for value, end in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(60)
        end(60)
    config = ingest.IngestConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=(topic,), form="raw", partition_by="none",
        table=str(tmp_path / "table"), once=True,
    )  # fmt: skip
    ingest.run(spark, config, said, said.stop)
    assert [bytes(row.value) for row in spark.read.parquet(config.table).collect()] == [b"1"]


def test_publish_leaves_out_no_old_file_and_refuses_what_was_merged_since(
    spark, cluster, topic, said, tmp_path
) -> None:
    table, sink_log = tmp_path / "table", tmp_path / "table" / "_spark_metadata"
    sink_log.mkdir(parents=True)

    def commit(batch: int, name: str, age_days: int, *ids: int) -> None:
        spark.createDataFrame([(each,) for each in ids], "id INT").coalesce(1).write.parquet(
            str(tmp_path / name)
        )
        (written,) = (tmp_path / name).glob("*.parquet")
        path = written.rename(table / name)
        modified = 1_700_000_000 - age_days * 86_400
        os.utime(path, (modified, modified))
        entry = {
            "path": path.as_uri(), "size": path.stat().st_size, "isDir": False, "modificationTime": modified * 1000,
            "blockReplication": 1, "blockSize": 1 << 20, "action": "add",
        }  # fmt: skip
        (sink_log / str(batch)).write_text("v1\n" + json.dumps(entry))

    config = publish.PublishConfig(
        bootstrap_server=cluster.bootstrap_servers,
        source=str(table),
        topic=topic,
        checkpoint=str(tmp_path / "c"),
    )
    commit(0, "merged-before.parquet", 1, 1, 2)
    assert publish.run(spark, config, said, said.stop)["rows"] == 2
    commit(1, "old.parquet", 30, 3)
    assert publish.run(spark, config, said, said.stop)["rows"] == 1
    commit(2, "merged-after.parquet", 0, 1, 2, 3)
    with pytest.raises(JobError, match=r"was compacted after its publication began \(merged-after.parquet\)"):
        publish.run(spark, config, said, said.stop)
    assert len(receive(cluster.bootstrap_servers, topic, 2)) == 3


def test_audit_counts_what_is_wrong_with_a_topic(spark, cluster, topic, said, tmp_path) -> None:
    def numbered(*numbers: int) -> list[dict]:
        return [{"key": b"p", "value": b"%d" % n, "partition": 0} for n in numbers]

    send(cluster.bootstrap_servers, topic, numbered(0, 1, 3, 2, 2, 4))
    config = audit.AuditConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=topic, producer="cast(key as string)",
        number="cast(cast(value as string) as bigint)", report_file=str(tmp_path / "report.json"),
    )  # fmt: skip
    result = audit.run(spark, config, said, said.stop)
    (figures,) = result["sides"]["this"]["partitions"]
    assert figures == {
        "partition": 0, "records": 6, "bytes": 12, "first_offset": 0, "last_offset": 5, "missing_offsets": 0,
        "gaps": 0, "duplicates": 1, "order_breaks": 2,
    }  # fmt: skip
    assert result["sides"]["this"]["examples"]["order"] == ["p 2 in 0 at 3", "p 2 in 0 at 4"]
    assert json.loads((tmp_path / "report.json").read_text()) == result
    with pytest.raises(JobError, match="1 duplicates on this side"):
        audit.run(spark, audit.AuditConfig(**{**fields(config), "fail_on": ("duplicates",)}), said, said.stop)


def fields(config) -> dict:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def test_audit_tells_two_topics_apart(spark, cluster, topic, make_topics, said) -> None:
    other = f"{topic}-copy"
    make_topics.create([other], partitions=2)
    records = [{"key": b"%d" % i, "value": b"v", "partition": 0} for i in range(10)]
    send(cluster.bootstrap_servers, topic, records)
    send(
        cluster.bootstrap_servers,
        other,
        [*records[:8], {**records[8], "value": b"w"}, {**records[0], "key": b"new"}],
    )
    config = audit.AuditConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=topic, other_topic=other, id="cast(key as string)"
    )
    difference = audit.run(spark, config, said, said.stop)["difference"]
    assert {k: v for k, v in difference.items() if k != "examples"} == {
        "only_this": 1, "only_other": 1, "other_count": 0, "other_content": 1,
    }  # fmt: skip


def test_archive_reads_what_a_consumer_reads(spark, cluster, make_topics, said) -> None:
    from pipeline.archive import OttlaLogDataSource

    topic = "archived"
    make_topics.create([topic], partitions=1, segment_bytes="20000")
    records = [{"key": b"%d" % i, "value": b"x" * 50, "headers": [("n", b"1")] if i % 100 == 0 else None}
               for i in range(2000)]  # fmt: skip
    for start in range(0, 2000, 200):
        send(cluster.bootstrap_servers, topic, records[start : start + 200])
    directory = Path(cluster.broker(0)["directory"]) / "logs"
    segments = sorted((directory / f"{topic}-0").glob("*.log"))
    assert len(segments) > 3
    spark.dataSource.register(OttlaLogDataSource)
    source = spark.read.format("ottla-log").option("topic", topic)
    closed = source.load(str(directory))
    assert closed.rdd.getNumPartitions() == len(segments) - 1
    assert closed.count() == int(segments[-1].stem)
    everything = source.option("includeActive", "true").load(str(directory)).orderBy("offset").collect()
    messages = receive(cluster.bootstrap_servers, topic, 1)
    assert [(row.offset, row.key, row.value) for row in everything] == [
        (m.offset(), m.key(), m.value()) for m in messages
    ]
    assert sum(len(row.headers) for row in everything) == 20


def test_small_files_are_merged_for_every_reader_at_once(spark, cluster, topic, said, tmp_path) -> None:
    config = ingest.IngestConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=(topic,), table=str(tmp_path / "table"),
        partition_by="month", once=True,
    )  # fmt: skip
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        for turn in range(4):
            send(cluster.bootstrap_servers, topic, [{"key": b"%d" % turn, "value": b"v"}] * 5)
            ingest.run(spark, config, said, said.stop)
        files = JobFiles(spark)
        before = committed_files(files, config.table)
        target = {"target_bytes": 1 << 20, "keep_replaced_s": 0.0}
        assert compact_table(spark, files, config.table, "parquet", **target) == len(before)
        (merged,) = committed_files(files, config.table)
        assert {str(path) for path in Path(config.table).rglob("*.parquet")} == {local_path(merged)}
        assert spark.read.parquet(config.table).count() == 20
        assert spark.read.parquet(config.table).select("event_month").distinct().count() == 1
        # The stream goes on after the merged file, and so do the next compactions of its log.
        for _turn in range(3):
            send(cluster.bootstrap_servers, topic, [{"value": b"v"}] * 5)
            ingest.run(spark, config, said, said.stop)
        assert spark.read.parquet(config.table).count() == 35
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")


def test_delta_tables_are_written_and_merged(spark, cluster, topic, said, tmp_path) -> None:
    config = ingest.IngestConfig(
        bootstrap_server=cluster.bootstrap_servers, topic=(topic,), table=str(tmp_path / "table"),
        table_format="delta", partition_by="none", once=True, compact=True,
    )  # fmt: skip
    merged = 0
    for _turn in range(2):
        send(cluster.bootstrap_servers, topic, [{"value": b"v"}] * 10)
        merged += ingest.run(spark, config, said, said.stop)["merged_files"]
    assert merged >= 2
    assert spark.read.format("delta").load(config.table).count() == 20
