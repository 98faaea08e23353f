"""All logs of a broker: directories, locks, identity, checkpoints, making and removing."""

import errno
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from simulation.disk import SimulatedDisk
from storage.disk import RealDisk
from storage.errors import (
    DirectoryLockedError,
    InconsistentDirectoryError,
    InconsistentTopicIdError,
    LogDirectoryNotFoundError,
    StorageError,
)
from storage.loading import LoadProgress
from storage.log_config import InvalidLogConfigError, LogConfig
from storage.names import marked_directory, parse_offset, parse_partition_directory
from storage.store import LogStore
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, simulated
from wire.types import BrokerEpoch, BrokerId, Offset, TopicId, TopicPartition

TOPIC_ID = TopicId(bytes(range(16)))
OTHER_ID = TopicId(bytes(range(1, 17)))


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("orders", number) for number in range(count)]


def two_directories(disk: SimulatedDisk, **options: object) -> LogStore:
    return LogStore.open(["/a", "/b"], LogConfig(), {}, TestClock(), disk, **options)  # type: ignore[arg-type]


def test_a_directory_serves_one_broker() -> None:
    disk = simulated()
    store = open_store(disk, TestClock())
    with pytest.raises(DirectoryLockedError, match="/data is in use by another broker"):
        open_store(disk, TestClock())
    store.close()
    open_store(disk, TestClock()).close()


LOCKER = """
import fcntl, sys
lock = open(sys.argv[1], "a+")
try:
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
print("locked", flush=True)
sys.stdin.readline()
"""


def test_java_and_we_exclude_each_other(tmp_path: Path) -> None:
    """Java's FileLock is a POSIX record lock, which another process takes here."""
    command = [sys.executable, "-c", LOCKER, str(tmp_path / ".lock")]
    store = open_store(RealDisk(), TestClock(), directory=str(tmp_path))
    assert subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 3
    store.close()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DirectoryLockedError):
            open_store(RealDisk(), TestClock(), directory=str(tmp_path))
        other.communicate("\n")
    open_store(RealDisk(), TestClock(), directory=str(tmp_path)).close()


def test_one_directory_named_twice_is_refused() -> None:
    with pytest.raises(InconsistentDirectoryError, match="named twice"):
        LogStore.open(["/a", "/a/"], LogConfig(), {}, TestClock(), SimulatedDisk())


def test_a_partition_in_two_directories_is_refused() -> None:
    disk = SimulatedDisk()
    two_directories(disk).close()
    disk.make_directory("/a/orders-0")
    disk.make_directory("/b/orders-0")
    with pytest.raises(InconsistentDirectoryError, match="orders-0 is in both /a and /b"):
        two_directories(disk)


def test_new_logs_go_where_the_fewest_are() -> None:
    store = two_directories(SimulatedDisk())
    for partition in partitions(5):
        store.create(partition)
    assert [len(store.logs_in(log_directory)) for log_directory in store.directories] == [3, 2]
    assert str(store.create(TopicPartition("chosen", 0), directory="/b").directory) == "/b/chosen-0"
    with pytest.raises(LogDirectoryNotFoundError):
        store.create(TopicPartition("chosen", 1), directory="/c")


def test_creating_again_gives_the_log_that_is_there() -> None:
    store = open_store(simulated(), TestClock())
    log = store.create(PARTITION)
    assert store.create(PARTITION, TOPIC_ID) is log
    assert log.topic_id == TOPIC_ID
    with pytest.raises(InconsistentTopicIdError):
        store.create(PARTITION, OTHER_ID)


def test_a_created_log_survives_a_crash() -> None:
    disk = simulated()
    clock = TestClock()
    open_store(disk, clock).create(PARTITION, TOPIC_ID)
    disk.crash(lambda n: n)
    log = open_store(disk, clock).get(PARTITION)
    assert log is not None
    assert log.topic_id == TOPIC_ID


def test_a_removed_log_goes_after_a_delay_and_leaves_nothing_behind() -> None:
    disk = simulated()
    clock = TestClock()
    store = open_store(disk, clock, LogConfig(file_delete_delay_ms=1000))
    log = store.create(PARTITION, TOPIC_ID)
    for _ in range(5):
        append(log, batch())
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(Offset(3))
    store.checkpoints.write_log_starts()
    store.checkpoints.write_recovery_points()
    store.remove(PARTITION)
    store.remove(PARTITION)
    assert store.get(PARTITION) is None
    (name,) = [entry.name for entry in disk.list_directory("/data") if entry.is_directory]
    assert parse_partition_directory(name) == (PARTITION, "-delete")
    again = store.create(PARTITION, OTHER_ID)
    assert (again.log_start_offset, again.log_end_offset) == (0, 0)
    clock.advance(1000)
    store.remove_due_files()
    assert [entry.name for entry in disk.list_directory("/data") if entry.is_directory] == ["orders-0"]
    store.close(clean=False)
    found = open_store(disk, clock).get(PARTITION)
    assert found is not None
    assert (found.topic_id, found.log_start_offset, found.log_end_offset) == (OTHER_ID, 0, 0)


def test_what_was_marked_for_deletion_goes_at_the_next_start() -> None:
    disk = simulated()
    clock = TestClock()
    store = open_store(disk, clock)
    store.create(PARTITION)
    store.remove(PARTITION)
    store.close()
    store = open_store(disk, clock)
    assert store.all_logs() == []
    store.remove_due_files()
    assert [entry.name for entry in disk.list_directory("/data") if entry.is_directory] == []


def test_foreign_directories_are_left_alone() -> None:
    disk = simulated()
    disk.make_directory("/data/lost+found")
    disk.make_directory("/data/orders-0.0123456789abcdef0123456789abcdef-stray")
    store = open_store(disk, TestClock())
    assert store.all_logs() == []
    assert disk.exists("/data/lost+found")


def test_identity_is_kept_and_checked() -> None:
    disk = SimulatedDisk()
    store = two_directories(disk)
    store.identity.check("cluster", BrokerId(1))
    store.identity.write("cluster", BrokerId(1), 7)
    assert store.identity.formatted_at == 7
    store.identity.write("cluster", BrokerId(1), 9)
    assert store.identity.formatted_at == 7
    assert disk.read("/b/meta.properties") == (
        b"broker.id=1\ncluster.id=cluster\nottla.formatted.zxid=7\nversion=0\n"
    )
    store.identity.check("cluster", BrokerId(1))
    store.identity.check(None, None)
    with pytest.raises(InconsistentDirectoryError, match="/a belongs to cluster cluster"):
        store.identity.check("another", BrokerId(1))
    with pytest.raises(InconsistentDirectoryError, match="/a belongs to broker 1"):
        store.identity.check("cluster", BrokerId(2))


@pytest.mark.parametrize(
    "content", [b"version=1\nnode.id=1\n", b"version=0\nbroker.id=one\n", b"\xff\xfe", b""]
)
def test_a_foreign_identity_is_refused(content: bytes) -> None:
    disk = simulated()
    disk.write("/data/meta.properties", content, sync=True)
    store = open_store(disk, TestClock())
    with pytest.raises(InconsistentDirectoryError):
        store.identity.check("cluster", BrokerId(1))


def test_javas_properties_are_read() -> None:
    disk = simulated()
    content = b"#\n#Sat Nov 21 10:00:00 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=a\\=b\ndirectory.id=x\n"
    disk.write("/data/meta.properties", content, sync=True)
    store = open_store(disk, TestClock())
    store.identity.check("a=b", BrokerId(1))
    store.identity.write("a=b", BrokerId(1), 7)
    assert b"\ndirectory.id=x\n" in disk.read("/data/meta.properties")
    assert b"\nottla.formatted.zxid=7\n" in disk.read("/data/meta.properties")
    disk.write("/data/meta.properties", content + b"ottla.formatted.zxid=5\n", sync=True)
    again = disk.read("/data/meta.properties")
    store.identity.write("a=b", BrokerId(1), 9)
    assert disk.read("/data/meta.properties") == again, "nothing to write, nothing is written"


def test_a_log_directory_that_was_made_survives_power_loss() -> None:
    disk = SimulatedDisk()
    store = LogStore.open(["/volume/kafka/data"], LogConfig(), {}, TestClock(), disk)
    log = store.create(PARTITION)
    append(log, batch())
    log.flush()
    disk.crash(lambda unsynced: unsynced)
    store = LogStore.open(["/volume/kafka/data"], LogConfig(), {}, TestClock(), disk)
    assert [log.log_end_offset for log in store.all_logs()] == [1]


def test_the_youngest_directory_says_since_when_logs_are_kept() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/a")
    disk.write("/a/meta.properties", b"broker.id=1\nottla.formatted.zxid=5\nversion=0\n", sync=True)
    store = two_directories(disk)
    assert store.identity.formatted_at is None
    store.identity.write("cluster", BrokerId(1), 9)
    assert store.identity.formatted_at == 9


def test_checkpoints_are_by_directory_and_read_back() -> None:
    disk = SimulatedDisk()
    store = two_directories(disk)
    marks = {}
    for number, partition in enumerate(partitions(4)):
        log = store.create(partition)
        for _ in range(5):
            append(log, batch())
        log.advance_high_watermark(Offset(number))
        marks[partition] = log.high_watermark
    store.checkpoints.write_high_watermarks({**marks, TopicPartition("gone", 0): Offset(5)})
    assert store.checkpoints.read_high_watermarks() == marks
    assert disk.read("/a/replication-offset-checkpoint") == b"0\n2\norders 0 0\norders 2 2\n"
    store.all_logs()[3].advance_log_start(Offset(2))
    store.checkpoints.write_log_starts()
    assert disk.read("/b/log-start-offset-checkpoint") == b"0\n1\norders 3 2\n"
    store.all_logs()[0].flush()
    store.checkpoints.write_recovery_points()
    assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n2\norders 0 5\norders 2 0\n"
    store.close(broker_epoch=BrokerEpoch(42))
    assert disk.read("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    store = two_directories(disk)
    log = store.get(partitions(4)[3])
    assert log is not None
    assert (log.log_start_offset, log.recovery_point) == (2, 5)
    assert not disk.exists("/a/.kafka_cleanshutdown")


def test_a_truncation_takes_the_checkpointed_recovery_point_back() -> None:
    disk = simulated()
    store = open_store(disk, TestClock())
    log = store.create(PARTITION)
    for _ in range(5):
        append(log, batch())
    log.flush()
    store.checkpoints.write_recovery_points()
    log.truncate_suffix(Offset(3))
    append(log, batch())
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"


def test_many_truncations_take_one_checkpoint() -> None:
    disk = simulated()
    store = open_store(disk, TestClock())
    logs = [store.create(partition) for partition in partitions(20)]
    for log in logs:
        append(log, batch())
        append(log, batch())
        log.flush()
    store.checkpoints.write_recovery_points()
    for log in logs:
        log.truncate_suffix(Offset(1))
    written = disk.changes
    for log in logs:
        log.settle()
    syncs, one_checkpoint = len(logs), 5
    assert disk.changes - written <= syncs + one_checkpoint
    store.close(clean=False)
    assert {log.recovery_point for log in open_store(disk, TestClock()).all_logs()} == {1}


def test_a_checkpoint_under_way_does_not_bring_a_recovery_point_back() -> None:
    disk = simulated()
    store = open_store(disk, TestClock())
    log = store.create(PARTITION)
    for _ in range(5):
        append(log, batch())
    log.flush()
    checkpoint = log.log_directory.recovery_points

    class Slow:
        """Writes the offsets that it got, after a truncation on the loop."""

        def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
            log.truncate_suffix(Offset(3))
            checkpoint.write(offsets)

    log.log_directory.recovery_points = Slow()  # type: ignore[assignment]
    store.checkpoints.write_recovery_points()
    log.log_directory.recovery_points = checkpoint
    append(log, batch())
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"


def test_progress_of_recovery_is_told() -> None:
    disk = simulated()
    clock = TestClock()
    store = open_store(disk, clock)
    for partition in partitions(3):
        append(store.create(partition), batch())
    store.close(clean=False)
    reported: list[LoadProgress] = []
    store = LogStore.open(
        ["/data"], LogConfig(), {}, clock, disk, progress=reported.append, recovery_threads=2
    )
    assert reported[-1] == ("/data", 3, 3, 3 * len(batch()))
    assert len(store.all_logs()) == 3


def test_rolled_logs_are_flushed_when_asked_and_others_when_their_time_has_come() -> None:
    clock = TestClock()
    store = open_store(simulated(), clock, LogConfig(segment_bytes=2 * len(batch())))
    log = store.create(PARTITION)
    append(log, batch())
    assert not store.flush_wanted
    assert store.flush_due() == 0
    for _ in range(2):
        append(log, batch())
    assert store.flush_wanted
    assert store.flush_due() == 1
    assert log.recovery_point == 2
    assert not store.flush_wanted
    store.update_topic_configs({"orders": LogConfig(flush_ms=1000)})
    assert store.flush_due() == 0
    clock.advance(1000)
    assert store.flush_due() == 1
    assert log.recovery_point == 3
    clock.advance(1000)
    assert store.flush_due() == 0


def test_one_bad_disk_does_not_stop_the_others() -> None:
    disk = SimulatedDisk()
    store = two_directories(disk)
    logs = [store.create(partition) for partition in partitions(4)]
    failed = []
    store.on_directory_failure = failed.append
    disk.fail_at(1, errno.EIO)
    with pytest.raises(StorageError):
        append(logs[0], batch())
    disk.fail_at(None)
    assert [log_directory.path for log_directory in failed] == ["/a"]
    assert store.offline_directories == [store.directories[0]]
    append(logs[1], batch())
    with pytest.raises(StorageError, match="/a is offline"):
        append(logs[2], batch())
    assert str(store.create(TopicPartition("new", 0)).directory) == "/b/new-0"
    store.checkpoints.write_recovery_points()
    store.close()
    assert not disk.exists("/a/.kafka_cleanshutdown")
    assert disk.exists("/b/.kafka_cleanshutdown")


def test_no_usable_directory_stops_the_broker() -> None:
    disk = simulated()
    disk.fail_at(1, errno.EROFS)
    with pytest.raises(StorageError, match="no log directory can be used: /data"):
        open_store(disk, TestClock())


def test_a_close_that_fails_leaves_no_marker() -> None:
    disk = simulated()
    store = open_store(disk, TestClock())
    append(store.create(PARTITION), batch())
    disk.fail_at(3)
    store.close()
    disk.stop()
    assert not disk.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", (("orders", 0), "")),
        ("my-topic.v2-13", (("my-topic.v2", 13), "")),
        ("orders-0.abc-delete", (("orders", 0), "-delete")),
        ("a.b-7.abc-future", (("a.b", 7), "-future")),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("orders-x", None),
        ("orders-delete", None),
        ("lost+found", None),
    ],
)
def test_names_of_directories(name: str, expected: object) -> None:
    assert parse_partition_directory(name) == expected


def test_a_marked_name_fits() -> None:
    long = TopicPartition("t" * 249, 12345)
    name = marked_directory(long, "f" * 32, "-delete")
    assert len(name) == 255
    parsed = parse_partition_directory(name)
    assert parsed is not None
    assert parsed[0].partition == 12345


def test_names_of_files() -> None:
    assert parse_offset("00000000000000001200.log") == 1200
    assert parse_offset("leader-epoch-checkpoint") is None


# Settings


def test_settings_are_read_over_a_base() -> None:
    base = LogConfig(segment_bytes=77, retention_ms=5)
    values = {
        "retention.ms": " -1 ",
        "cleanup.policy": "compact, delete",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "TRUE",
        "leader.replication.throttled.replicas": "0:1,1:2",
        "compression.type": "zstd",
        "someone.elses": "x",
    }
    config = LogConfig.from_strings(values, base)
    assert (config.segment_bytes, config.retention_ms, config.min_cleanable_dirty_ratio) == (77, -1, 0.25)
    assert config.compacts
    assert config.deletes
    assert config.preallocate
    assert config.leader_replication_throttled_replicas == ("0:1", "1:2")
    assert not config.keeps_producer_compression
    assert LogConfig.from_strings({}) == LogConfig()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("preallocate", "perhaps"),
        ("cleanup.policy", "compact,burn"),
        ("segment.bytes", ""),
    ],
)
def test_settings_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(InvalidLogConfigError, match=f"for configuration {name}"):
        LogConfig.from_strings({name: value})
