"""The journal's writer: everything noted is in the files, rotated ones included."""

import errno
import os
from pathlib import Path

import trio
import trio.testing
import zstandard

from cluster.journal import writer as module
from cluster.journal.frames import MAGIC, encode_frame, read_frames
from cluster.journal.writer import StateJournal, compress_rotated
from wire.types import BrokerId, WallMs


class Time:
    def __init__(self):
        self.now = 1000

    def __call__(self):
        self.now += 1
        return WallMs(self.now)


async def at_once(work):
    await trio.lowlevel.checkpoint()
    return work()


def events_in(directory):
    found = []
    for path in [*sorted(directory.glob("*.zst")), directory / module.JOURNAL_FILE]:
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompress(data)
        found += [event for event, _ in read_frames(data)]
    return found


def run_with(directory, body, time=None, directories=None, clock=None):
    async def main():
        journal = StateJournal(directories or (lambda: [directory]), BrokerId(7), time or Time(), at_once)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.run)
            await body(journal)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


def test_what_is_noted_is_written(tmp_path):
    async def body(journal):
        journal.note("role", {"topic": "a"})
        await trio.testing.wait_all_tasks_blocked()
        assert [event["topic"] for event in events_in(tmp_path)] == ["a"]

    run_with(tmp_path, body)
    assert events_in(tmp_path) == [{"at": 1001, "broker": 7, "n": 1, "kind": "role", "topic": "a"}]


def test_what_is_left_at_the_end_is_written(tmp_path):
    async def body(journal):
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1200):
            journal.note("role", {"partition": number})

    run_with(tmp_path, body)
    assert [event["partition"] for event in events_in(tmp_path)] == list(range(1200))


def test_each_start_begins_a_file_and_compresses_the_one_before(tmp_path):
    async def body(journal):
        journal.note("state", {"state": "running"})
        await trio.testing.wait_all_tasks_blocked()

    time = Time()
    for _ in range(3):
        run_with(tmp_path, body, time)
    assert len(list(tmp_path.glob("*.zst"))) == 2
    assert len(events_in(tmp_path)) == 3


def test_a_full_file_is_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROTATE_AT_BYTES", 200)

    async def body(journal):
        for number in range(20):
            journal.note("role", {"partition": number})
            await trio.testing.wait_all_tasks_blocked()

    run_with(tmp_path, body)
    assert len(list(tmp_path.glob("*.zst"))) > 2
    assert [event["partition"] for event in events_in(tmp_path)] == list(range(20))


def test_too_much_at_once_drops_the_oldest_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PENDING_MAX", 3)

    async def body(journal):
        await trio.testing.wait_all_tasks_blocked()
        for number in range(5):
            journal.note("role", {"partition": number})

    run_with(tmp_path, body)
    first, *rest = events_in(tmp_path)
    assert (first["kind"], first["count"]) == ("dropped", 2)
    assert [event["partition"] for event in rest] == [2, 3, 4]


def test_the_oldest_files_go_when_all_hold_too_much(tmp_path):
    for number in range(4):
        path = tmp_path / f"state-changes-{number:015d}.journal"
        path.write_bytes(MAGIC + encode_frame({"number": number}))
    compress_rotated(tmp_path, keep_bytes=100)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left[-1] == "state-changes-000000000000003.journal.zst"
    assert len(left) < 4


def fail_below(monkeypatch, failing):
    """Make writes to files below a directory fail as on a full disk, while it is in `failing`."""
    write = os.write

    def checked(descriptor, data):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if any(path.is_relative_to(directory) for directory in failing):
            write(descriptor, bytes(data[: len(data) // 2]))
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data)

    monkeypatch.setattr(module.os, "write", checked)


def test_a_full_disk_sends_the_journal_to_the_next_directory(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    failing = set()
    fail_below(monkeypatch, failing)

    async def body(journal):
        journal.note("role", {"partition": 0})
        await trio.testing.wait_all_tasks_blocked()
        failing.add(first)
        for number in range(1, 4):
            journal.note("role", {"partition": number})
            await trio.testing.wait_all_tasks_blocked()

    run_with(tmp_path, body, directories=lambda: [first, second])
    assert [event["partition"] for event in events_in(first)] == [0]
    assert [event["partition"] for event in events_in(second)] == [1, 2, 3]


def test_a_journal_that_no_directory_takes_is_written_later(tmp_path, monkeypatch):
    failing = {tmp_path}
    fail_below(monkeypatch, failing)
    clock = trio.testing.MockClock()

    async def body(journal):
        journal.note("role", {"partition": 1})
        await trio.testing.wait_all_tasks_blocked()
        failing.clear()
        clock.jump(module.RETRY_S)
        await trio.testing.wait_all_tasks_blocked()
        assert [event["partition"] for event in events_in(tmp_path)] == [1]

    run_with(tmp_path, body, clock=clock)


def test_a_first_directory_that_is_dead_is_passed_over(tmp_path):
    def directories():
        return [tmp_path / "missing", tmp_path]

    async def body(journal):
        journal.note("role", {"partition": 1})

    run_with(tmp_path, body, directories=directories)
    assert [event["partition"] for event in events_in(tmp_path)] == [1]


def test_rotated_files_that_cannot_be_compressed_stay(tmp_path, monkeypatch):
    (tmp_path / "state-changes-000000000000001.journal").mkdir()

    async def body(journal):
        journal.note("role", {"partition": 1})
        await trio.testing.wait_all_tasks_blocked()

    run_with(tmp_path, body)
    assert [event["partition"] for event in events_in(tmp_path)] == [1]
