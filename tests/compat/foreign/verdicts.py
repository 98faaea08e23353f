"""The results of a foreign suite, and the results that were expected.

A suite's `run` prints a line a case: ``ok<TAB>name``, ``not ok<TAB>name<TAB>why`` or ``skip<TAB>name<TAB>why``.
The file `allow` lists the cases which must pass, one a line; it only grows. `refused` lists the others:
``name<TAB>reason``, where a reason begins with one of `KINDS`. A name may end in ``*``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

KINDS: Final = ("not served", "environment", "suite", "ours", "inside")
"""Why a case is refused: something that we do not serve; no broker needed, or something that the machine lacks; a fault
of the suite, or a demand that Apache Kafka 3.9 does not meet either; a fault of ours; a look inside Apache Kafka's
broker, which has no equivalent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one case.

    Attributes:
        outcome: ``ok``, ``not ok`` or ``skip``.
        name: The case.
        why: The suite's own reason; empty if the case passed.
    """

    outcome: str
    name: str
    why: str = ""


def read_verdicts(lines: Iterable[str]) -> Iterator[Verdict]:
    """Yield the verdicts among the lines of a run; every other line is the suite's own output."""
    for line in lines:
        outcome, *rest = line.rstrip("\n").split("\t")
        if outcome in ("ok", "not ok", "skip") and rest:
            yield Verdict(outcome, rest[0], rest[1] if len(rest) > 1 else "")


@dataclass(slots=True)
class Expectations:
    """The two lists of a suite.

    Attributes:
        allow: The cases which must pass.
        refused: The reason why each other case is not expected to pass.
    """

    allow: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Expectations":
        """Read the lists of a suite's folder.

        Raises:
            ValueError: a case is in both lists, or a reason is of no known kind.
        """
        allow = set(_lines(folder / "allow"))
        refused = dict(line.split("\t", 1) for line in _lines(folder / "refused"))
        for name, reason in refused.items():
            if not reason.startswith(KINDS):
                raise ValueError(f"{folder.name}: {name} is refused for no known kind of reason: {reason}")
        if both := allow & refused.keys():
            raise ValueError(f"{folder.name}: both allowed and refused: {', '.join(sorted(both))}")
        return cls(allow, refused)

    def reason(self, name: str) -> str | None:
        """Return why a case is refused, or None."""
        return next(
            (why for pattern, why in self.refused.items() if fnmatchcase(name, _escaped(pattern))), None
        )

    def surprises(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """Return the cases which did not pass although they are allowed, or are on neither list."""
        return [
            verdict
            for verdict in verdicts
            if verdict.outcome != "ok" and (verdict.name in self.allow or self.reason(verdict.name) is None)
        ]

    def missing(self, verdicts: Iterable[Verdict], cases: Sequence[str] = ()) -> set[str]:
        """Return the allowed cases which a run did not mention.

        Args:
            verdicts: The results of the run.
            cases: The requested parts of the suite, such as classes; none for the whole.
        """
        parts = tuple(case.rpartition(".")[2] for case in cases)
        expected = {name for name in self.allow if not parts or name.startswith(parts)}
        return expected - {verdict.name for verdict in verdicts}

    def grown(self, verdicts: Iterable[Verdict]) -> "Expectations":
        """Return the lists, with every case that passed moved to the allowed ones."""
        passed = {verdict.name for verdict in verdicts if verdict.outcome == "ok"}
        return Expectations(
            self.allow | passed, {n: why for n, why in self.refused.items() if n not in passed}
        )

    def write(self, folder: Path) -> None:
        """Write both lists, sorted."""
        (folder / "allow").write_text("".join(f"{name}\n" for name in sorted(self.allow)))
        (folder / "refused").write_text("".join(f"{n}\t{why}\n" for n, why in sorted(self.refused.items())))


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def _escaped(pattern: str) -> str:
    """Return a pattern in which only ``*`` is special."""
    return pattern.replace("[", "[[]")
