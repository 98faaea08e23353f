"""Apache Kafka's DumpLogSegments reads our files, segments, indexes and snapshots, and finds nothing wrong."""

import re
import subprocess
from pathlib import Path

import pytest

from storage.clock import SystemClock
from storage.compaction.cleaner import Cleaner, CleanerSettings
from storage.compaction.cleaning import clean
from storage.disk import RealDisk
from storage.log import AppendOrigin
from storage.log_config import LogConfig
from storage.store import LogStore
from tests.unit.storage.samples import append, batch, marker
from wire.records.compression import Compression
from wire.types import TopicId, TopicPartition

BATCHES = 200
RECORDS = 10


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments: every codec, several epochs, an idempotent producer, transactions of each end."""
    directory = tmp_path_factory.mktemp("dump")
    clock = SystemClock()
    store = LogStore.open([directory], LogConfig(segment_bytes=20_000), {}, clock, RealDisk())
    log = store.create(TopicPartition("orders", 0), TopicId(bytes(range(16))))
    now = clock.wall_ms()
    for number in range(BATCHES):
        values = [b"value %d of %d" % (index, number) * 10 for index in range(RECORDS)]
        codec = list(Compression)[number % len(Compression)]
        data = batch(values, timestamp=now + number, producer=7, sequence=number * RECORDS, compression=codec)
        append(log, data, epoch=number // 50)
    for number, committed in enumerate([False, True]):
        data = batch([b"x"] * 3, timestamp=now, producer=9, sequence=3 * number, transactional=True)
        append(log, data, epoch=4)
        append(log, marker(9, committed=committed), epoch=4, origin=AppendOrigin.COORDINATOR)
    append(log, batch([b"open"], timestamp=now, producer=9, sequence=6, transactional=True), epoch=4)
    assert len(log.segments) > 2
    store.close()
    return directory / "orders-0"


def dump(java: list[str], files: list[Path], *arguments: str) -> str:
    command = [*java, "kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_record_is_read(kafka_java: list[str], segments: Path) -> None:
    output = dump(kafka_java, sorted(segments.glob("*.log")), "--print-data-log", "--deep-iteration")
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
    assert offsets == list(range(BATCHES * RECORDS + 9))
    assert "isvalid: false" not in output
    codecs = set(re.findall(r"compresscodec: (\w+)", output))
    assert {codec.lower() for codec in codecs} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert re.findall(r"endTxnMarker: (\w+)", output) == ["ABORT", "COMMIT"]
    assert set(re.findall(r"partitionLeaderEpoch: (\d+)", output)) == {"0", "1", "2", "3", "4"}


def test_the_indexes_fit_the_segments(kafka_java: list[str], segments: Path) -> None:
    files = sorted([*segments.glob("*.index"), *segments.glob("*.timeindex")])
    output = dump(kafka_java, files)
    for complaint in ("Mismatches", "Found timestamp mismatch", "out of order", "no message found"):
        assert complaint.lower() not in output.lower(), output
    assert len(re.findall(r"^offset: \d+ position: \d+", output, re.MULTILINE)) >= 6
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", output, re.MULTILINE)) >= 6
    assert "passed sanity check" in dump(kafka_java, files, "--index-sanity-check")


def test_transactions_and_producers_are_read(kafka_java: list[str], segments: Path) -> None:
    aborted = dump(kafka_java, list(segments.glob("*.txnindex")))
    assert "producerId: 9 firstOffset: 2000 lastOffset: 2003 lastStableOffset: 2004" in aborted
    snapshot = dump(kafka_java, [max(segments.glob("*.snapshot"))])
    assert re.search(
        r"producerId: 7 .*currentTxnFirstOffset: OptionalLong.empty .*lastSequence: 1999 ", snapshot
    )
    assert re.search(
        r"producerId: 9 .*currentTxnFirstOffset: OptionalLong\[2008\] .*lastSequence: 6 ", snapshot
    )


def test_compacted_segments_are_read(kafka_java: list[str], tmp_path: Path) -> None:
    """Cut batches, delete horizons, and the header that a group's last batch leaves, in every codec."""
    clock = SystemClock()
    config = LogConfig(
        segment_bytes=4000, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
    )
    store = LogStore.open([tmp_path], config, {}, clock, RealDisk())
    log = store.create(TopicPartition("orders", 0))
    latest = {}
    for number in range(60):
        keys = [b"k%d" % (number % 7), b"own%d" % number]
        values = [None if number % 10 == 9 else b"v%d" % number, b"x" * 40]
        codec = list(Compression)[number % len(Compression)]
        data = batch(
            values, keys=keys, timestamp=clock.wall_ms(), producer=7, sequence=2 * number, compression=codec
        )
        latest.update({key: 2 * number + index for index, key in enumerate(keys)})
        append(log, data)
    append(log, batch([b"last"], keys=[b"k0"], timestamp=clock.wall_ms()))
    latest[b"k0"] = 120
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    cleaner = Cleaner(store, CleanerSettings())
    cleaning = cleaner.pick(clock.wall_ms())
    assert cleaning is not None
    assert cleaner.finish(cleaning, clean(cleaning.job, RealDisk()))
    store.close()
    directory = tmp_path / "orders-0"
    output = dump(kafka_java, sorted(directory.glob("*.log")), "--print-data-log", "--deep-iteration")
    assert [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)] == sorted(
        latest.values()
    )
    assert "isvalid: false" not in output
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", output)
    indexes = dump(kafka_java, sorted([*directory.glob("*.index"), *directory.glob("*.timeindex")]))
    for complaint in ("mismatches", "found timestamp mismatch", "out of order", "no message found"):
        assert complaint not in indexes.lower(), indexes
