"""The scoreboard of foreign suites, and that the one in docs/ matches the lists."""

from pathlib import Path

from tests.compat.foreign.scoreboard import readme_line, scoreboard, write_scoreboard
from tests.compat.foreign.verdicts import Expectations
from tests.machine import ROOT

SUITES = [
    ("one", Expectations({"a", "b"}, {"c": "ours: slow", "d": "inside: a log"})),
    ("two", Expectations({"e"})),
]


def test_cases_are_counted_by_suite_and_reason() -> None:
    text = scoreboard(SUITES)
    assert "**3 foreign cases pass.**" in text
    assert "| one | 2 | 0 | 0 | 0 | 1 | 1 |" in text
    assert "| two | 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| `c` | ours: slow |" in text


def test_readmes_line_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("before\n- `docs/foreign-suites.md`: old\nafter\n")
    write_scoreboard(SUITES, tmp_path)
    assert (tmp_path / "README.md").read_text() == f"before\n{readme_line(SUITES)}\nafter\n"
    assert "3 cases" in readme_line(SUITES)


def test_the_documents_are_those_of_the_lists() -> None:
    folder = ROOT / "tests" / "compat" / "foreign"
    names = sorted(path.parent.name for path in folder.glob("*/run"))
    suites = [(name, Expectations.read(folder / name)) for name in names]
    assert (ROOT / "docs" / "foreign-suites.md").read_text() == scoreboard(suites)
    assert readme_line(suites) in (ROOT / "README.md").read_text().splitlines()
