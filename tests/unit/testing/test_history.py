"""Each anomaly is found, and none is reported where there is none."""

import pytest

from ottla.testing.history import History, HistoryViolationError, Mark
from wire.types import TopicPartition

TP = TopicPartition("t", 0)
A = [Mark("a", n) for n in range(4)]


def history(
    records: list[tuple[int, Mark]], *, acknowledged: dict[Mark, int], sent: list[Mark] = A
) -> History:
    out = History()
    for mark in sent:
        out.sent(mark, TP)
    for mark, offset in acknowledged.items():
        out.acknowledged(mark, TP, offset)
    out.read("one", TP, records)
    return out


def test_a_clean_history_passes() -> None:
    clean = history([(0, A[0]), (1, A[1]), (5, A[3])], acknowledged={A[0]: 0, A[1]: -1})
    clean.check()
    assert clean.acknowledged_count == 2


@pytest.mark.parametrize(
    ("records", "acknowledged", "kind"),
    [
        ([(0, A[0])], {A[0]: 0, A[1]: 1}, "lost"),
        ([(0, A[0]), (1, A[0])], {A[0]: 0}, "duplicate"),
        ([(0, A[1]), (1, A[0])], {}, "reordered"),
        ([(0, A[0])], {A[0]: 7}, "misplaced"),
        ([(0, Mark("b", 0))], {}, "phantom"),
    ],
)
def test_an_anomaly_is_named(records, acknowledged, kind) -> None:
    wrong = history(records, acknowledged=acknowledged)
    anomalies = wrong.anomalies()
    assert [name for name in anomalies.__slots__ if getattr(anomalies, name)] == [kind]
    with pytest.raises(HistoryViolationError, match=f"^{kind}: 1"):
        wrong.check()


def test_readings_that_differ_at_an_offset_have_diverged() -> None:
    one = history([(0, A[0]), (1, A[1])], acknowledged={})
    one.read("other", TP, [(0, A[0]), (1, A[2])])
    assert len(one.anomalies().diverged) == 1


def test_acknowledged_and_read_by_nobody_is_lost() -> None:
    out = History()
    out.acknowledged(A[0], TP, 0)
    assert out.anomalies().lost == ["t-0: nobody read it"]
