"""What every disk must do, for the real one and the simulated one alike."""

from collections.abc import Callable

import pytest

from storage.disk import Disk

CHECKS: list[Callable[[Disk, str], None]] = []


def check(function: Callable[[Disk, str], None]) -> Callable[[Disk, str], None]:
    CHECKS.append(function)
    return function


@check
def bytes_are_read_back_where_they_were_written(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(b"hello", 3)
    file.write_at(memoryview(bytearray(b"HE")), 3)
    assert file.size() == 8
    assert file.pread(100, 0) == b"\0\0\0HEllo"
    assert file.pread(2, 3) == b"HE"
    assert file.pread(5, 8) == b""
    file.sync()
    assert disk.read(f"{root}/a") == b"\0\0\0HEllo"
    assert disk.size(f"{root}/a") == 8


@check
def truncation_cuts_and_extends(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"


@check
def opening_what_is_not_there_fails_unless_told_to_create(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.read(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.list_directory(f"{root}/none")
    assert not disk.exists(f"{root}/a")
    disk.open(f"{root}/a", create=True)
    assert disk.exists(f"{root}/a")


@check
def a_file_is_replaced_whole(disk: Disk, root: str) -> None:
    disk.replace(f"{root}/a", b"long old content", sync=True)
    old = disk.open(f"{root}/a")
    disk.replace(f"{root}/a", b"new", sync=False)
    assert disk.read(f"{root}/a") == b"new"
    assert old.pread(100, 0) == b"long old content", "an open file is not touched by a replacement"
    disk.write(f"{root}/a", b"x", sync=True)
    assert disk.read(f"{root}/a") == b"x"
    assert {entry.name for entry in disk.list_directory(root)} == {"a"}


@check
def an_open_file_outlives_its_name(disk: Disk, root: str) -> None:
    disk.write(f"{root}/a", b"content", sync=False)
    file = disk.open(f"{root}/a")
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.read(f"{root}/b") == b"content"
    disk.remove(f"{root}/b")
    disk.remove(f"{root}/b")
    assert file.pread(100, 0) == b"content"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/c")


@check
def directories_are_made_renamed_and_removed(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/x/y")
    disk.make_directory(f"{root}/x/y")
    disk.write(f"{root}/x/y/a", b"1", sync=False)
    disk.rename(f"{root}/x", f"{root}/z")
    assert disk.read(f"{root}/z/y/a") == b"1"
    assert [tuple(entry) for entry in disk.list_directory(root)] == [("z", True)]
    assert [tuple(entry) for entry in disk.list_directory(f"{root}/z/y")] == [("a", False)]
    disk.sync_directory(f"{root}/z")
    disk.remove_directory(f"{root}/z")
    disk.remove_directory(f"{root}/z")
    assert not disk.exists(f"{root}/z")


@check
def a_lock_excludes_until_it_is_released(disk: Disk, root: str) -> None:
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    disk.lock(f"{root}/.lock").release()


@check
def times_of_change_can_be_set(disk: Disk, root: str) -> None:
    disk.write(f"{root}/a", b"1", sync=False)
    disk.set_modified_ms(f"{root}/a", 1_600_000_000_123)
    assert disk.modified_ms(f"{root}/a") == 1_600_000_000_123


@check
def space_is_told(disk: Disk, root: str) -> None:
    space = disk.space(root)
    assert 0 < space.usable <= space.total
