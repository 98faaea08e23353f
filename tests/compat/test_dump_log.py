"""Apache Kafka's DumpLogSegments reads our files, segments, indexes and snapshots, and finds nothing wrong; and
`ottla dump-log` says the same of them, line by line.
"""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.commands.main import main
from storage.compaction.cleaner import Cleaner, CleanerSettings
from storage.compaction.cleaning import clean
from storage.disk import RealDisk
from storage.log import AppendOrigin
from storage.log_config import LogConfig
from storage.store import LogStore
from tests.unit.storage.samples import append, batch, marker
from timing.clock import SystemClock
from wire.formats.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from wire.formats.consumer_protocol import TopicPartition as SubscribedPartitions
from wire.formats.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wire.formats.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from wire.formats.versioned import encode_versioned
from wire.records.batch import iter_headers
from wire.records.compression import Compression
from wire.records.legacy import build_message_set
from wire.records.record import Record
from wire.types import (
    Generation,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
    WallMs,
)

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
BATCHES = 200
RECORDS = 10


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments: every codec, several epochs, an idempotent producer, commits and aborts."""
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


# The same lines


def compare(java: list[str], files: list[Path], *arguments: str) -> str:
    """Dump files with both tools, require the same lines, and return them."""
    command = [*java, "kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *arguments]
    theirs = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert theirs.returncode == 0, theirs.stderr
    ours = CliRunner().invoke(main, ["dump-log", "--files", ",".join(map(str, files)), *arguments])
    assert ours.exit_code == 0, ours.stderr
    assert ours.stdout.splitlines() == theirs.stdout.splitlines()
    assert sorted(ours.stderr.splitlines()) == sorted(theirs.stderr.splitlines())
    return ours.stdout + ours.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--print-data-log",),
        ("--deep-iteration", "--max-bytes", "5000"),
        ("--print-data-log", "--skip-record-metadata"),
        ("--index-sanity-check",),
    ],
    ids=lambda arguments: " ".join(arguments) or "plain",
)
def test_every_file_gives_the_same_lines(
    kafka_java: list[str], segments: Path, arguments: tuple[str, ...]
) -> None:
    files = sorted(path for path in segments.iterdir() if path.suffix in SUFFIXES)
    assert {path.suffix for path in files} == SUFFIXES
    compare(kafka_java, files, *arguments)


def test_what_is_damaged_gives_the_same_lines(kafka_java: list[str], segments: Path, tmp_path: Path) -> None:
    """A flipped bit, a torn tail, a gap, wrong index entries; a file that is not part of a log."""
    log, index, times = (tmp_path / f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))
    whole = (segments / log.name).read_bytes()
    sizes = [header.size for _, header in iter_headers(whole)]
    gap = whole[: sizes[0]] + whole[sizes[0] + sizes[1] :] + whole[:20]
    log.write_bytes(gap)
    assert "Non-consecutive offsets" in compare(kafka_java, [log], "--deep-iteration")
    log.write_bytes(gap[:100] + bytes([gap[100] ^ 1]) + gap[101:])
    index.write_bytes(b"")
    (tmp_path / "notes.txt").write_text("nothing")
    said = compare(kafka_java, [log, index, tmp_path / "notes.txt"])
    for found in ("isvalid: false", "20 invalid bytes at the end", "is empty", "Ignoring unknown file"):
        assert found in said
    log.write_bytes(whole)
    for path in (index, times):
        entries = bytearray((segments / path.name).read_bytes())
        entries[3 if path is index else 7] ^= 1
        path.write_bytes(entries)
    said = compare(kafka_java, [index, times], "--verify-index-only")
    for found in ("Mismatches in", "Found timestamp mismatch in"):
        assert found in said


def test_old_formats_give_the_same_lines(kafka_java: list[str], tmp_path: Path) -> None:
    records = [Record(number, 1_700_000_000_000 + number, b"k", b"v" * 30) for number in range(3)]
    data = b"".join(
        bytes(
            build_message_set(
                [replace_offset(each, at + 3 * slot) for at, each in enumerate(records)],
                magic,
                compression=codec,
            )
        )
        for slot, (magic, codec) in enumerate(
            [(0, Compression.NONE), (0, Compression.GZIP), (1, Compression.NONE), (1, Compression.GZIP)]
        )
    )
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    said = compare(kafka_java, [path], "--print-data-log")
    assert said.count("payload: vvv") == 12


def replace_offset(record: Record, offset: int) -> Record:
    return Record(offset, record.timestamp, record.key, record.value)


def write_log(path: Path, pairs: list[tuple[bytes, bytes | None]]) -> Path:
    path.write_bytes(batch([value for _, value in pairs], keys=[key for key, _ in pairs]))
    return path


def test_committed_offsets_and_groups_give_the_same_lines(kafka_java: list[str], tmp_path: Path) -> None:
    offset_key = encode_versioned(OffsetCommitKey(group="g\u00fc", topic="t", partition=3), 1)
    group_key = encode_versioned(GroupMetadataKey(group="g"), 2)
    committed = OffsetCommitValue(
        offset=Offset(7),
        leader_epoch=LeaderEpoch(2),
        metadata='"m"',
        commit_timestamp=WallMs(5),
        expire_timestamp=WallMs(9),
    )
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"\x00\xff")
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[SubscribedPartitions(topic="a", partitions=[0, 1])]
    )
    members = [
        MemberMetadata(
            member_id=name,
            client_id="c",
            client_host="/h",
            session_timeout=1000,
            rebalance_timeout=2000,
            subscription=given,
            assignment=encode_versioned(assignment, 1) if given else b"",
        )
        for name, given in [
            ("m-0", encode_versioned(subscription, 3)),
            ("m-1", encode_versioned(subscription, 0)),
            ("m-2", b"\x07"),
        ]
    ]
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=Generation(3),
        protocol="range",
        leader="m-0",
        current_state_timestamp=WallMs(11),
        members=members,
    )
    pairs: list[tuple[bytes, bytes | None]] = [
        *((offset_key, encode_versioned(committed, version)) for version in (0, 1, 3, 4)),
        *((group_key, encode_versioned(group, version)) for version in (0, 3, 4)),
        (
            group_key,
            encode_versioned(
                GroupMetadataValue(
                    protocol_type="connect",
                    generation=Generation(1),
                    protocol=None,
                    leader=None,
                    members=members[:1],
                ),
                3,
            ),
        ),
        (offset_key, None),
        (b"\x00\x63key", b"value"),
    ]
    compare(kafka_java, [write_log(tmp_path / f"{0:020d}.log", pairs)], "--offsets-decoder")


def test_transactions_give_the_same_lines(kafka_java: list[str], tmp_path: Path) -> None:
    key = encode_versioned(TransactionLogKey(transactional_id="tx"), 0)
    values = [
        TransactionLogValue(
            producer_id=ProducerId(5),
            producer_epoch=ProducerEpoch(2),
            transaction_timeout_ms=60_000,
            transaction_status=status,
            transaction_partitions=None if not status else [PartitionsSchema(topic="t", partition_ids=[4])],
            transaction_last_update_timestamp_ms=WallMs(77),
            transaction_start_timestamp_ms=WallMs(66),
        )
        for status in range(8)
    ]
    pairs: list[tuple[bytes, bytes | None]] = [(key, encode_versioned(value, 0)) for value in values]
    pairs += [(key, None), (key, encode_versioned(values[1], 1)), (b"\x00\x05x", b"y")]
    compare(kafka_java, [write_log(tmp_path / f"{0:020d}.log", pairs)], "--transaction-log-decoder")


def test_java_decoders_are_refused_by_name(segments: Path) -> None:
    log = next(iter(sorted(segments.glob("*.log"))))
    done = CliRunner().invoke(
        main, ["dump-log", "--files", str(log), "--value-decoder-class", "com.example.Mine"]
    )
    assert done.exit_code == 1
    assert "com.example.Mine is Java" in done.stderr
    done = CliRunner().invoke(main, ["dump-log", "--files", str(log), "--cluster-metadata-decoder"])
    assert done.exit_code == 1
