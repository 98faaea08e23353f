"""The leader-epoch cache, by the worked examples of KIP-101 and KIP-279, and its file."""

import pytest

from simulation.disk import SimulatedDisk
from storage.leader_epochs import EpochEnd, LeaderEpochCache
from wire.types import LeaderEpoch, Offset

PATH = "/leader-epoch-checkpoint"


def cache(*entries: tuple[int, int], disk: SimulatedDisk | None = None) -> LeaderEpochCache:
    epochs = LeaderEpochCache(disk or SimulatedDisk(), PATH)
    for epoch, start in entries:
        epochs.assign(LeaderEpoch(epoch), Offset(start))
    return epochs


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, None),
        (0, (0, 1200)),
        (1, (0, 1200)),
        (3, (0, 1200)),
        (4, (4, 1500)),
        (5, None),
    ],
)
def test_where_an_epoch_ended(requested: int, expected: tuple[int, int] | None) -> None:
    found = cache((0, 0), (4, 1200)).end_offset_for(LeaderEpoch(requested), Offset(1500))
    assert found == (None if expected is None else EpochEnd(LeaderEpoch(expected[0]), Offset(expected[1])))


def test_an_epoch_before_all_known_ones_ended_where_they_begin() -> None:
    assert cache((4, 1200)).end_offset_for(LeaderEpoch(2), Offset(1500)) == (2, 1200)


def test_nothing_is_known_of_an_empty_log() -> None:
    epochs = cache()
    assert epochs.end_offset_for(LeaderEpoch(0), Offset(0)) is None
    assert epochs.latest == -1
    assert epochs.latest_entry is None
    assert epochs.earliest_entry is None
    assert not epochs


def test_the_fast_failover_of_kip_279() -> None:
    """Two leaders in a row fail; the follower of the first must not keep what the second never had."""
    # A led in epoch 0 up to 10, B in 1 from 8 to 20, A again in 2 from 8.
    on_b = cache((0, 0), (1, 8))
    on_a = cache((0, 0), (2, 8))
    # B comes back with epoch 1: A's largest epoch not above 1 is 0, and it ended at 8, as it did on B.
    answer = on_a.end_offset_for(on_b.latest, Offset(15))
    assert answer == (0, 8)
    assert on_b.end_offset_for(answer.epoch, Offset(20)) == (0, 8)
    on_b.truncate_suffix(Offset(8))
    assert on_b.entries() == [(0, 0)]


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ((2, 30), [(0, 0), (1, 10), (2, 30)]),
        ((2, 20), [(0, 0), (1, 10), (2, 20)]),  # again, from where it began
        ((3, 20), [(0, 0), (1, 10), (3, 20)]),  # 2 had no records
        ((3, 10), [(0, 0), (3, 10)]),
        ((1, 40), [(0, 0), (1, 40)]),  # an older epoch than the newest contradicts those from it on
        ((0, 0), [(0, 0)]),
        ((5, 40), [(0, 0), (1, 10), (2, 20), (5, 40)]),
    ],
)
def test_assigning_removes_what_contradicts(
    assigned: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    epochs = cache((0, 0), (1, 10), (2, 20))
    epochs.assign(LeaderEpoch(assigned[0]), Offset(assigned[1]))
    if assigned == (2, 30):
        expected = [(0, 0), (1, 10), (2, 20)]  # the newest epoch again changes nothing
    assert epochs.entries() == expected


def test_a_negative_epoch_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no leader epoch"):
        cache().assign(LeaderEpoch(-1), Offset(0))


@pytest.mark.parametrize(
    ("end", "expected"),
    [(0, []), (5, [(0, 0)]), (10, [(0, 0)]), (11, [(0, 0), (1, 10)]), (99, [(0, 0), (1, 10), (2, 20)])],
)
def test_truncating_the_end(end: int, expected: list[tuple[int, int]]) -> None:
    epochs = cache((0, 0), (1, 10), (2, 20))
    epochs.truncate_suffix(Offset(end))
    assert epochs.entries() == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [(0, 0), (1, 10), (2, 20)]),
        (5, [(0, 5), (1, 10), (2, 20)]),
        (10, [(1, 10), (2, 20)]),
        (15, [(1, 15), (2, 20)]),
        (50, [(2, 50)]),
    ],
)
def test_truncating_the_front(start: int, expected: list[tuple[int, int]]) -> None:
    epochs = cache((0, 0), (1, 10), (2, 20))
    epochs.truncate_prefix(Offset(start))
    assert epochs.entries() == expected


def test_epochs_of_offsets() -> None:
    epochs = cache((2, 10), (5, 20))
    assert [epochs.epoch_for_offset(Offset(offset)) for offset in (0, 9, 10, 19, 20, 99)] == [
        -1,
        -1,
        2,
        2,
        5,
        5,
    ]
    assert epochs.start_of(LeaderEpoch(5)) == 20
    assert epochs.start_of(LeaderEpoch(3)) is None
    assert epochs.previous_epoch(LeaderEpoch(5)) == 2
    assert epochs.previous_epoch(LeaderEpoch(2)) == -1


def test_the_file_is_kafkas_and_is_read_back() -> None:
    disk = SimulatedDisk()
    epochs = cache((0, 0), (4, 1200), disk=disk)
    assert not disk.exists(PATH)  # a broker that takes a thousand leaderships does not write on its loop
    epochs.write()
    changes = disk.changes
    epochs.write()
    assert disk.changes == changes
    assert disk.read(PATH) == b"0\n2\n0 0\n4 1200\n"
    again = LeaderEpochCache(disk, PATH)
    assert again.load()
    assert again.entries() == [(0, 0), (4, 1200)]


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\nx y\n",
        b"\xff",
        b"0\n2\n4 10\n3 20\n",
        b"0\n2\n3 20\n4 10\n",
    ],
)
def test_a_file_that_makes_no_sense_is_no_file(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.write(PATH, content, sync=True)
    epochs = LeaderEpochCache(disk, PATH)
    assert not epochs.load()
    assert not epochs


def test_sync_makes_the_last_change_durable() -> None:
    disk = SimulatedDisk()
    epochs = cache((0, 0), (1, 10), disk=disk)
    epochs.sync()
    epochs.truncate_suffix(Offset(5))
    epochs.sync()
    disk.crash(lambda _: 0)
    again = LeaderEpochCache(disk, PATH)
    assert again.load()
    assert again.entries() == [(0, 0)]


def test_a_write_that_failed_is_made_up_for() -> None:
    disk = SimulatedDisk()
    epochs = cache((0, 0), disk=disk)
    disk.fail_at(1)
    with pytest.raises(OSError, match="Input"):
        epochs.write()
    disk.fail_at(None)
    epochs.write()
    assert disk.read(PATH) == b"0\n1\n0 0\n"
