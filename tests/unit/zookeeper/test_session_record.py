"""The record of a session is in the first log directory that accepts it."""

import shutil

from cluster.zookeeper import session_record
from cluster.zookeeper.session_closer import SessionKey
from cluster.zookeeper.session_record import SessionRecords, read_session_record, write_session_record

KEY = SessionKey("localhost:2181", 0x17, b"p" * 16, 6.0)


def test_a_dead_first_directory_is_passed_over(tmp_path):
    dead = tmp_path / "dead"
    records = SessionRecords(lambda: [dead, tmp_path])
    records.write(KEY)
    assert read_session_record(tmp_path) == KEY


def test_a_session_that_cannot_be_recorded_is_no_failure(tmp_path):
    records = SessionRecords(lambda: [tmp_path / "dead"])
    records.write(KEY)
    records.erase()


def test_a_file_that_stays_is_no_failure(tmp_path):
    (tmp_path / session_record.FILE_NAME).mkdir()
    records = SessionRecords(lambda: [tmp_path])
    records.erase()


def test_sessions_of_former_lives_are_closed_wherever_they_are_recorded(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(session_record, "close_session", lambda key, _: closed.append(key) or True)
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    SessionRecords(lambda: [second]).write(KEY)
    SessionRecords(lambda: [first, second]).close_former("elsewhere:2181", lambda: 0.0)
    assert [(key.hosts, key.session_id) for key in closed] == [("elsewhere:2181", 0x17)]
    assert read_session_record(second) is None


def test_the_record_of_a_copied_directory_is_left_alone(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    write_session_record(original, KEY)
    shutil.copytree(original, copy)
    assert read_session_record(copy) is None
    assert read_session_record(original) == KEY
    original.rename(tmp_path / "moved")
    assert read_session_record(tmp_path / "moved") == KEY
