"""The real disk and the simulated one pass one suite; the simulated one also loses what was not synced."""

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.disk import SimulatedCrash, SimulatedDisk
from storage.disk import Disk, RealDisk
from tests.contract.disk_checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["real", "simulated"])
def test_disk(kind: str, check: Callable[[Disk, str], None], tmp_path: Path) -> None:
    if kind == "real":
        check(RealDisk(), str(tmp_path))
    else:
        disk = SimulatedDisk()
        disk.make_directory("/root")
        check(disk, "/root")


def test_a_crash_keeps_what_was_synced() -> None:
    for seed in range(50):
        disk = SimulatedDisk()
        disk.make_directory("/d")
        disk.sync_directory("/")
        file = disk.open("/d/a", create=True)
        file.write_at(b"synced", 0)
        file.sync()
        disk.sync_directory("/d")
        file.write_at(b" and not", 6)
        disk.crash(_chance(seed))
        content = disk.read("/d/a")
        assert content.startswith(b"synced")
        assert b"synced and not".startswith(content)
        with pytest.raises(OSError, match="before the crash"):
            file.pread(1, 0)


def test_a_crash_may_lose_a_name_that_was_not_synced() -> None:
    found = set()
    for seed in range(50):
        disk = SimulatedDisk()
        disk.write("/a", b"1", sync=True)
        disk.rename("/a", "/b")
        disk.crash(_chance(seed))
        found.add(tuple(sorted(entry.name for entry in disk.list_directory("/"))))
    assert found == {(), ("a",), ("b",)}


def test_a_crash_may_reorder_writes_of_one_file() -> None:
    found = set()
    for seed in range(100):
        disk = SimulatedDisk()
        file = disk.open("/a", create=True)
        disk.sync_directory("/")
        file.write_at(b"11", 0)
        file.write_at(b"22", 2)
        disk.crash(_chance(seed))
        found.add(disk.read("/a"))
    assert {b"", b"11", b"1122", b"\0\x0022", b"\0\x002"} <= found


def test_the_program_ends_at_the_chosen_change_with_half_a_write_done() -> None:
    disk = SimulatedDisk(choose=lambda n: n // 2)
    file = disk.open("/a", create=True)
    disk.crash_at(1)
    with pytest.raises(SimulatedCrash):
        file.write_at(b"abcd", 0)
    disk.stop()
    assert disk.read("/a") == b"ab"


def test_a_failing_disk_fails_until_it_is_mended() -> None:
    disk = SimulatedDisk()
    file = disk.open("/a", create=True)
    disk.fail_at(2, errno.ENOSPC)
    file.write_at(b"x", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.write_at(b"y", 1)
    disk.fail_at(None)
    file.write_at(b"z", 1)
    assert disk.read("/a") == b"xz"


def _chance(seed: int) -> Callable[[int], int]:
    chance = random.Random(seed)
    return lambda n: chance.randint(0, n)
