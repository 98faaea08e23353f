"""What a leader and a follower append, convert and refuse."""

import struct

import pytest

from storage.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    StorageError,
    UnexpectedAppendOffsetError,
    UnsupportedCodecError,
)
from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from tests.unit.storage.samples import (
    PARTITION,
    TestClock,
    append,
    batch,
    headers,
    marker,
    open_store,
    read_all,
    simulated,
    values,
)
from wire.records.batch import patch_crc, patch_max_timestamp, read_header
from wire.records.builder import build_batch, recompress_batch
from wire.records.compression import Compression
from wire.records.legacy import build_message_set
from wire.records.record import Record, iter_records, records_bytes
from wire.types import LeaderEpoch, Offset, WallMs

NOW = 1_700_000_000_000


def make(config: LogConfig | None = None) -> Log:
    return open_store(simulated(), TestClock(), config).create(PARTITION)


def refused(
    log: Log, data: bytearray, error: type[LogError], *, origin: AppendOrigin = AppendOrigin.CLIENT
) -> LogError:
    """Check that an append is refused and changes nothing."""
    before = (
        read_all(log),
        log.log_end_offset,
        log.leader_epochs.entries(),
        dict(log.producer_state.entries),
    )
    with pytest.raises(error) as raised:
        append(log, data, epoch=9, origin=origin)
    assert type(raised.value) is error
    assert (
        read_all(log),
        log.log_end_offset,
        log.leader_epochs.entries(),
        log.producer_state.entries,
    ) == before
    return raised.value


def test_a_leader_gives_offsets_and_epoch_in_place() -> None:
    log = make()
    append(log, batch([b"a", b"b"]), epoch=3)
    data = batch([b"c", b"d", b"e"])
    sent = bytes(data)
    result = log.append_as_leader(memoryview(data), LeaderEpoch(3), WallMs(NOW))
    assert (result.first_offset, result.last_offset, result.log_append_time, result.max_timestamp) == (
        2,
        4,
        -1,
        NOW,
    )
    assert (result.log_start_offset, result.duplicate, result.size) == (
        0,
        False,
        len(sent),
    )
    stored = read_all(log)[1]
    assert stored == bytes(data)
    assert struct.unpack(">qiI", stored[:16]) == (2, len(sent) - 12, 3)
    assert stored[16:] == sent[16:]
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e")]


def test_log_append_time_is_the_leaders_clock() -> None:
    log = make(LogConfig(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(memoryview(batch([b"a"], timestamp=5)), LeaderEpoch(0), WallMs(NOW))
    assert (result.log_append_time, result.max_timestamp) == (NOW, NOW)
    data = read_all(log)[0]
    assert [record.timestamp for record in iter_records(data, 0, read_header(data))] == [NOW]
    log.close(clean=False)


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topic_decides_the_codec(source: Compression, target: str) -> None:
    log = make(LogConfig(compression_type=target))
    append(log, batch([b"x" * 50] * 20, compression=source, producer=4, sequence=7, epoch=2))
    (header,) = headers(log)
    expected = {"producer": source, "uncompressed": Compression.NONE}.get(target)
    assert header.compression == (expected if expected is not None else Compression.from_kafka_name(target))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 7)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (0, 19, 0)
    assert values(log) == [(offset, b"x" * 50) for offset in range(20)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_old_formats_are_converted_up(magic: int, codec: Compression) -> None:
    log = make()
    append(log, batch([b"before"]))
    records = [Record(index, NOW + index, b"k", b"%d" % index) for index in range(3)]
    data = bytearray(build_message_set(records, magic, compression=codec))
    assert append(log, data + b"cut off") == (1, 3)
    header = headers(log)[1]
    assert (header.magic, header.base_offset, header.last_offset, header.compression) == (2, 1, 3, codec)
    assert values(log)[1:] == [(1, b"0"), (2, b"1"), (3, b"2")]
    assert header.max_timestamp == (NOW + 2 if magic else -1)


def patched(data: bytearray, position: int, content: bytes) -> bytearray:
    data[position : position + len(content)] = content
    if position > 20:
        patch_crc(data, 0)
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (patched(batch(), 30, b"\x01")[:-1] + b"\xee", CorruptBatchError),
        (batch()[:30], CorruptBatchError),
        (bytearray(), CorruptBatchError),
        (bytearray(b"\0" * 100), CorruptBatchError),
        (patched(batch(), 16, b"\x07"), CorruptBatchError),
        (batch()[:-3], InvalidRecordError),
        (batch() + batch(), InvalidRecordError),
        (patched(batch(), 7, b"\x01"), InvalidRecordError),  # a base offset
        (patched(batch(), 22, b"\x20"), InvalidRecordError),  # control
        (patched(batch(), 22, b"\x08"), InvalidTimestampError),  # log-append time
        (patched(batch(), 22, b"\x06"), UnsupportedCodecError),
        (patched(batch(), 23, struct.pack(">i", 5)), InvalidRecordError),  # last offset delta
        (patched(batch(), 57, struct.pack(">i", 0)), InvalidRecordError),  # count
        (batch(producer=1, sequence=-1), InvalidRecordError),
        (batch([b"x" * 2000]), RecordTooLargeError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_damaged_and_contradictory_batches_are_refused(data: bytearray, error: type[LogError]) -> None:
    log = make(LogConfig(max_message_bytes=1000))
    append(log, batch())
    refused(log, data, error)
    append(log, batch())
    assert log.log_end_offset == 2


def test_a_batch_must_fit_a_segment() -> None:
    refused(make(LogConfig(segment_bytes=100)), batch([b"x" * 100]), RecordBatchTooLargeError)


def test_markers_are_for_coordinators() -> None:
    log = make()
    refused(log, marker(1, committed=True), InvalidRecordError)
    assert append(log, marker(1, committed=True), origin=AppendOrigin.COORDINATOR) == (0, 0)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_compacted_topics_want_keys(codec: Compression) -> None:
    log = make(LogConfig(cleanup_policy=frozenset({"compact"})))
    error = refused(
        log, batch([b"a"] * 4, keys=[b"k", None, b"", None], compression=codec), InvalidRecordError
    )
    assert isinstance(error, InvalidRecordError)
    assert [each.batch_index for each in error.record_errors] == [1, 3]
    append(log, batch([b"a", None], keys=[b"k", b""], compression=codec))


@pytest.mark.parametrize(
    ("config", "timestamps", "bad"),
    [
        (LogConfig(message_timestamp_before_max_ms=1000), [NOW, NOW - 1000, NOW + 10**9], []),
        (LogConfig(message_timestamp_before_max_ms=1000), [NOW, NOW - 1001, NOW], [1]),
        (LogConfig(message_timestamp_after_max_ms=1000), [NOW + 1000, 0, NOW], []),
        (LogConfig(message_timestamp_after_max_ms=1000), [NOW + 1001, 0, NOW + 5000], [0, 2]),
        (LogConfig(message_timestamp_difference_max_ms=10), [NOW - 11, NOW, NOW + 11], [0, 2]),
        (LogConfig(message_timestamp_before_max_ms=1, message_timestamp_type="LogAppendTime"), [0, 0, 0], []),
    ],
)
def test_timestamps_must_be_near_the_brokers(
    config: LogConfig, timestamps: list[int], bad: list[int]
) -> None:
    log = make(config)
    data = batch([b"v"] * 3, timestamps=timestamps)
    if not bad:
        append(log, data)
        return
    error = refused(log, data, InvalidTimestampError)
    assert isinstance(error, InvalidTimestampError)
    assert [each.batch_index for each in error.record_errors] == bad


@pytest.mark.parametrize(
    "config", [LogConfig(cleanup_policy=frozenset({"compact"})), LogConfig(compression_type="zstd")]
)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("long", [False, True], ids=["short varints", "long varints"])
def test_records_that_contradict_their_batch_are_refused(
    config: LogConfig, codec: Compression, long: bool
) -> None:
    size = 300 if long else 3
    records = [Record(index, NOW + 100_000 * index, b"k" * size, b"v" * size) for index in range(3)]
    good = build_batch(records)
    header = read_header(good)
    body = records_bytes(good, 0, header)
    each = len(body) // 3
    log = make(config)
    for bad in (
        body[:-1],
        body[:each] + body[2 * each :],
        body[each:] + body[:each],
        body + b"\0",
        b"\x01" + body[1:],
        bytes([body[0] + 2]) + body[1:],
    ):
        refused(log, recompress_batch(header, bad, codec, None, header.max_timestamp), InvalidRecordError)
    append(log, recompress_batch(header, body, codec, None, header.max_timestamp))
    assert values(log) == [(index, b"v" * size) for index in range(3)]


def test_another_codec_keeps_what_records_say_and_finds_their_greatest_time() -> None:
    log = make(LogConfig(compression_type="lz4"))
    records = [
        Record(
            index,
            NOW + time,
            None if index else b"k",
            None if index == 2 else b"v",
            [("h", b"1"), ("i", None)],
        )
        for index, time in enumerate([5, 70_000, -3])
    ]
    data = build_batch(records)
    patch_max_timestamp(data, 0, WallMs(NOW + 10**9))
    append(log, data)
    (stored,) = read_all(log)
    header = read_header(stored)
    assert (header.compression, header.max_timestamp) == (Compression.LZ4, NOW + 70_000)
    assert list(iter_records(stored, 0, header)) == records


def test_another_codec_and_the_brokers_time() -> None:
    log = make(LogConfig(compression_type="gzip", message_timestamp_type="LogAppendTime"))
    append(log, batch([b"a", b"b"], timestamps=[1, 2]))
    (stored,) = read_all(log)
    assert [record.timestamp for record in iter_records(stored, 0, read_header(stored))] == [NOW, NOW]


# Followers


def replicated(base: int, count: int = 1, *, epoch: int = 0) -> bytearray:
    return batch([b"v%d" % (base + index) for index in range(count)], base_offset=base, leader_epoch=epoch)


def test_a_follower_keeps_offsets_and_epochs() -> None:
    log = make()
    data = replicated(0, 3) + replicated(3, 1, epoch=2) + replicated(7, 2, epoch=2)
    result = log.append_as_follower(memoryview(data + replicated(9)[:-1]))
    assert (result.first_offset, result.last_offset) == (0, 8)
    assert b"".join(read_all(log)) == data
    assert log.log_end_offset == 9
    assert log.leader_epochs.entries() == [(0, 0), (2, 3)]


def test_a_follower_may_begin_anywhere() -> None:
    log = make()
    log.truncate_fully_and_start_at(Offset(50))
    log.append_as_follower(replicated(60))
    assert (log.log_start_offset, log.log_end_offset) == (50, 61)
    assert values(log) == [(60, b"v60")]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (replicated(1), UnexpectedAppendOffsetError),
        (replicated(2) + replicated(2), UnexpectedAppendOffsetError),
        (replicated(3) + replicated(2), UnexpectedAppendOffsetError),
        (replicated(2) + replicated(3)[:-1] + b"\xee", CorruptBatchError),
        (replicated(2) + b"\x07" * 80, CorruptBatchError),
    ],
)
def test_a_follower_refuses_what_does_not_follow(data: bytearray, error: type[LogError]) -> None:
    log = make()
    log.append_as_follower(replicated(0, 2))
    before = read_all(log)
    with pytest.raises(error):
        log.append_as_follower(data)
    assert (read_all(log), log.log_end_offset) == (before, 2)


def test_nothing_whole_is_nothing() -> None:
    log = make()
    assert log.append_as_follower(b"").first_offset == -1
    assert log.append_as_follower(replicated(0)[:-1]).last_offset == -1


def test_a_fetch_larger_than_a_segment_is_spread() -> None:
    log = make(LogConfig(segment_bytes=300))
    data = bytearray().join(replicated(base) for base in range(20))
    log.append_as_follower(data)
    assert b"".join(read_all(log)) == data
    assert len(log.segments) > 3
    assert all(segment.size <= 300 for segment in log.segments)


# Rolling


def test_segments_roll_by_size() -> None:
    size = len(batch())
    log = make(LogConfig(segment_bytes=size * 3))
    for _ in range(7):
        append(log, batch())
    assert [(segment.base_offset, segment.size) for segment in log.segments] == [
        (0, size * 3),
        (3, size * 3),
        (6, size),
    ]


def test_segments_roll_by_the_time_of_their_records() -> None:
    clock = TestClock()
    log = open_store(simulated(), clock, LogConfig(segment_ms=1000)).create(PARTITION)
    for timestamp in (NOW, NOW + 1000, NOW + 1001, NOW + 1500, NOW - 5000):
        append(log, batch(timestamp=timestamp))
    clock.advance(10_000)
    append(log, batch(timestamp=NOW + 1600))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_the_clock() -> None:
    clock = TestClock()
    log = open_store(simulated(), clock, LogConfig(segment_ms=1000)).create(PARTITION)
    append(log, batch(timestamp=-1))
    clock.advance(1000)
    append(log, batch(timestamp=-1))
    clock.advance(1)
    append(log, batch(timestamp=-1))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_rolls_earlier_and_the_same_each_time() -> None:
    clock = TestClock()
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    store = open_store(simulated(), clock, config)
    logs = [store.create(PARTITION._replace(partition=number)) for number in range(20)]
    jitters = [log.active_segment.roll_jitter_ms for log in logs]
    assert all(0 <= jitter < 900 for jitter in jitters)
    assert len(set(jitters)) > 10


def test_segments_roll_when_an_index_is_full() -> None:
    log = make(LogConfig(segment_index_bytes=16, index_interval_bytes=1))
    for _ in range(6):
        append(log, batch())
    assert len(log.segments) > 1
    assert all(len(segment.offset_index) <= 2 for segment in log.segments)


def test_segments_roll_where_offsets_get_out_of_reach() -> None:
    log = make()
    log.append_as_follower(replicated(0))
    far = 2**31 + 5
    log.append_as_follower(replicated(far))
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert values(log) == [(0, b"v0"), (far, b"v%d" % far)]


# A failing disk


def fill(log: Log) -> None:
    for _ in range(10):
        append(log, batch())


@pytest.mark.parametrize("change", range(1, 12))
def test_a_failing_disk_takes_the_directory_offline_and_loses_nothing_acknowledged(change: int) -> None:
    disk = simulated()
    clock = TestClock()
    store = open_store(disk, clock, LogConfig(segment_bytes=200))
    log = store.create(PARTITION)
    other = store.create(PARTITION._replace(partition=1))
    failures = []
    store.on_directory_failure = failures.append
    disk.fail_at(change)
    with pytest.raises(StorageError):
        fill(log)
    acknowledged = log.log_end_offset
    assert [log_directory.path for log_directory in failures] == ["/data"]
    for use in (
        log.flush,
        other.flush,
        lambda: append(other, batch()),
        lambda: log.truncate_suffix(Offset(0)),
    ):
        with pytest.raises(StorageError):
            use()
    store.close()
    disk.stop()
    disk.fail_at(None)
    reopened = open_store(disk, clock).get(PARTITION)
    assert reopened is not None
    assert reopened.log_end_offset == acknowledged or reopened.log_end_offset == acknowledged + 1
