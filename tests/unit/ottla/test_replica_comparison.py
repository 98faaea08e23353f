"""Replicas are compared below the high watermark: by bytes, and by records where they are compacted."""

from ottla.client.admin.replicas import ReplicaRead
from ottla.replica_comparison import compare_bytes, compare_records
from tests.unit.storage.samples import batch
from wire.errors import Error
from wire.types import BrokerId, Offset


def read(*batches: bytes | bytearray, high_watermark: int = 100) -> ReplicaRead:
    return ReplicaRead(Error.NONE, Offset(high_watermark), b"".join(map(bytes, batches)))


def reads(*each: ReplicaRead) -> dict[BrokerId, ReplicaRead]:
    return {BrokerId(number): found for number, found in enumerate(each)}


FIRST = batch([b"1", b"2"], base_offset=0)
SECOND = batch([b"3"], base_offset=2)
THIRD = batch([b"4"], base_offset=3)


def test_equal_bytes_up_to_what_all_have() -> None:
    found = compare_bytes(reads(read(FIRST, SECOND, THIRD[:30]), read(FIRST, SECOND), read(FIRST)), Offset(0))
    assert found == (2, [], False, 0)
    assert compare_bytes(reads(read(FIRST, SECOND), read(FIRST, SECOND)), Offset(2)) == (3, [], False, 0)


def test_nothing_at_or_beyond_the_high_watermark() -> None:
    assert compare_bytes(reads(read(FIRST, SECOND), read(FIRST, THIRD, high_watermark=2)), Offset(0)) == (
        2,
        [],
        False,
        0,
    )


def test_what_differs_is_told() -> None:
    other = batch([b"x"], base_offset=2)
    found = compare_bytes(reads(read(FIRST, SECOND, THIRD), read(FIRST, other, THIRD)), Offset(0))
    assert found.next_offset == 4
    assert "unmatched checksum at offset 2" in found.differences[0]
    epoch = batch([b"3"], base_offset=2, leader_epoch=7)
    assert "unmatched bytes" in compare_bytes(reads(read(SECOND), read(epoch)), Offset(2)).differences[0]


def test_replicas_that_parted_are_not_compared_on() -> None:
    found = compare_bytes(reads(read(FIRST, SECOND), read(FIRST, THIRD)), Offset(0))
    assert (found.next_offset, found.parted) == (2, True)
    assert found.differences == ["replica 0's offset 2 doesn't match replica 1's offset 3"]
    broken = bytes(16) + b"\x05" + bytes(60)
    assert compare_bytes(reads(read(FIRST, broken), read(FIRST, SECOND)), Offset(0)).parted


def test_compacted_replicas_may_lack_records_and_not_change_them() -> None:
    found = compare_records(reads(read(FIRST, SECOND, THIRD), read(SECOND, THIRD)), Offset(0))
    assert (found.next_offset, found.differences, found.cleaned) == (4, [], 2)
    other = batch([b"x"], base_offset=2)
    found = compare_records(reads(read(FIRST, SECOND, THIRD), read(FIRST, other)), Offset(0))
    assert (found.next_offset, found.cleaned) == (3, 0)
    assert found.differences == ["has unmatched records at offset 2 in replicas 0 and 1"]
