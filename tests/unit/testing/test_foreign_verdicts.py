"""The results of foreign suites, compared with the expected ones."""

from pathlib import Path

import pytest

from tests.compat.foreign.verdicts import Expectations, Verdict, read_verdicts


def test_only_verdicts_are_read_from_a_run() -> None:
    lines = ["starting\n", "ok\ta\n", "not ok\tb\tit broke\n", "skip\tc\n", "okay\td\n", "ok\n"]
    assert list(read_verdicts(lines)) == [
        Verdict("ok", "a"),
        Verdict("not ok", "b", "it broke"),
        Verdict("skip", "c"),
    ]


def test_what_is_allowed_has_to_pass_and_what_fails_has_to_be_refused() -> None:
    expected = Expectations({"a", "b"}, {"c[1]*": "inside: looks at the log manager"})
    verdicts = [
        Verdict("ok", "a"),
        Verdict("skip", "b"),
        Verdict("not ok", "c[1]x"),
        Verdict("not ok", "c1x"),
        Verdict("ok", "new"),
    ]
    assert [v.name for v in expected.surprises(verdicts)] == ["b", "c1x"]


def test_an_allowed_case_that_did_not_run_is_missed() -> None:
    assert Expectations({"a", "b"}).missing([Verdict("not ok", "a")]) == {"b"}
    whole = Expectations({"Topics.a", "Topics.b", "Groups.c"})
    assert whole.missing([Verdict("ok", "Topics.a")], ["kafka.api.Topics"]) == {"Topics.b"}


def test_lists_grow_and_come_back_from_disk(tmp_path: Path) -> None:
    expected = Expectations({"a"}, {"b": "ours: slow", "c": "environment: a second host"})
    expected.grown([Verdict("ok", "b"), Verdict("not ok", "a")]).write(tmp_path)
    assert Expectations.read(tmp_path) == Expectations({"a", "b"}, {"c": "environment: a second host"})


@pytest.mark.parametrize(
    ("allow", "refused"), [("a\n", "a\tours: both\n"), ("", "a\tbecause\n")], ids=["both", "unknown kind"]
)
def test_lists_that_contradict_themselves_are_refused(tmp_path: Path, allow: str, refused: str) -> None:
    (tmp_path / "allow").write_text(allow)
    (tmp_path / "refused").write_text(refused)
    with pytest.raises(ValueError, match="a"):
        Expectations.read(tmp_path)
