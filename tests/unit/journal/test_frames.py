"""The journal's frames: what was written is read, and a torn end does no harm."""

import pytest

from cluster.journal.frames import MAGIC, JournalError, encode_frame, read_frames

EVENTS = [{"at": 1, "kind": "role", "topic": "a"}, {"at": 2, "isr": [1, 2]}, {}]


def journal(*events):
    return MAGIC + b"".join(map(encode_frame, events))


def test_round_trip():
    assert [event for event, _ in read_frames(journal(*EVENTS))] == EVENTS


def test_reading_goes_on_where_it_ended():
    data = journal(*EVENTS[:1])
    ((_, position),) = read_frames(data)
    assert position == len(data)
    assert [event for event, _ in read_frames(journal(*EVENTS), position)] == EVENTS[1:]


@pytest.mark.parametrize("size", range(len(journal(*EVENTS))))
def test_a_torn_end_hides_the_last_event_only(size):
    whole = [position for _, position in read_frames(journal(*EVENTS))]
    expected = EVENTS[: sum(position <= size for position in whole)]
    assert [event for event, _ in read_frames(journal(*EVENTS)[:size])] == expected


def test_a_damaged_frame_is_told():
    data = bytearray(journal(*EVENTS))
    data[len(MAGIC) + 10] ^= 1
    with pytest.raises(JournalError, match="frame at 4"):
        list(read_frames(bytes(data)))


def test_a_damaged_last_frame_is_a_torn_one():
    data = bytearray(journal(*EVENTS))
    data[-1] ^= 1
    assert [event for event, _ in read_frames(bytes(data))] == EVENTS[:2]


def test_other_files_are_refused():
    with pytest.raises(JournalError, match="no state-change journal"):
        list(read_frames(b"PNG_" + bytes(20)))
