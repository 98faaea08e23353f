"""Batches, clocks and stores for the storage tests."""

from collections.abc import Sequence

from simulation.disk import SimulatedDisk
from storage.disk import Disk
from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from storage.log_read import read_range
from storage.store import LogStore
from wire.records.batch import BatchHeader, iter_headers, read_header
from wire.records.builder import build_batch
from wire.records.compression import Compression
from wire.records.end_transaction import build_end_transaction_marker
from wire.records.record import Record, iter_records
from wire.types import (
    LeaderEpoch,
    MonotonicSeconds,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    WallMs,
)

PARTITION = TopicPartition("orders", 0)
DAY_MS = 24 * 60 * 60 * 1000


class TestClock:
    """Both clocks, moved by hand."""

    __test__ = False

    def __init__(self) -> None:
        self.wall = 1_700_000_000_000
        self.seconds = 1000.0

    def wall_ms(self) -> WallMs:
        return WallMs(self.wall)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(self.seconds)

    def advance(self, ms: int) -> None:
        self.wall += ms
        self.seconds += ms / 1000


def batch(
    values: Sequence[bytes | None] = (b"v",),
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1_700_000_000_000,
    timestamps: Sequence[int] | None = None,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Build a batch as a client sends it, or with an offset and epoch as a leader does."""
    records = [
        Record(
            0,
            timestamps[index] if timestamps else timestamp,
            keys[index] if keys is not None else b"k%d" % index,
            value,
        )
        for index, value in enumerate(values)
    ]
    return bytearray(
        build_batch(
            records,
            base_offset=Offset(base_offset),
            compression=compression,
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(epoch if producer >= 0 else -1),
            base_sequence=sequence,
            transactional=transactional,
            leader_epoch=LeaderEpoch(leader_epoch),
        )
    )


def marker(producer: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    """Build an end-of-transaction marker."""
    return bytearray(
        build_end_transaction_marker(
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(epoch),
            timestamp=WallMs(1_700_000_000_000),
        )
    )


def simulated() -> SimulatedDisk:
    """Make an empty simulated disk with a log directory whose name is durable."""
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def open_store(
    disk: Disk, clock: TestClock, config: LogConfig | None = None, directory: str = "/data"
) -> LogStore:
    """Open a store on one directory."""
    return LogStore.open([directory], config or LogConfig(), {}, clock, disk)


def append(
    log: Log, data: bytearray, epoch: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT
) -> tuple[int, int]:
    """Append as leader; return the first and last offset."""
    result = log.append_as_leader(
        memoryview(data), LeaderEpoch(epoch), log.log_directory.clock.wall_ms(), origin=origin
    )
    return result.first_offset, result.last_offset


def read_all(log: Log, *, max_bytes: int = 4096) -> list[bytes]:
    """Read every batch of a log, one fetch after the other."""
    batches: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes, upper_bound=log.log_end_offset, min_one_batch=True)
        if read.file_range is None:
            break
        data = read_range(read.file_range)
        before = offset
        for position, header in iter_headers(data):
            if header.last_offset >= offset:
                batches.append(data[position : position + header.size])
            offset = max(offset, header.next_offset)
        assert offset > before, f"no progress at {offset}"
    return batches


def headers(log: Log) -> list[BatchHeader]:
    """Return the headers of every batch of a log."""
    return [read_header(data) for data in read_all(log)]


def values(log: Log) -> list[tuple[int, bytes | None]]:
    """Return offset and value of every record of a log."""
    found = []
    for data in read_all(log):
        header = read_header(data)
        if not header.is_control:
            found.extend((record.offset, record.value) for record in iter_records(data, 0, header))
    return found
