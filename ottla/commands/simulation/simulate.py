"""``ottla simulate``: whole clusters with clients, operators and faults, in one process and in no time."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.simulation.mutation_score import score
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from simulation.soup.run import Outcome

_STORIES: Final = "simulated"


@click.command("simulate")
@click.option("--seeds", type=click.IntRange(1), default=100, show_default=True, help="How many runs.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The first run's seed; the others follow."
)
@click.option(
    "--faults", metavar="KIND,...", help="Only these kinds of faults; `none` for none.  [default: all]"
)
@click.option(
    "--operations", metavar="KIND,...", help="Only these operations; `none` for none.  [default: all]"
)
@click.option(
    "--seconds", type=click.FloatRange(1), default=30.0, show_default=True, help="Simulated, with faults."
)
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [default: one for each core]")
@click.option(
    "--scenario", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Replay this file."
)
@click.option("--stories", type=click.Path(path_type=Path, file_okay=False), default=Path(_STORIES), show_default=True,
    help="Where failures are written: the story as text, and a scenario file that replays it.")  # fmt: skip
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make failures short.")
@click.option("--keep-going", is_flag=True, help="Go on after a failure.")
@click.option("--json", "as_json", is_flag=True, help="Print the sums as an object, and nothing else.")
@click.option("--mutations", metavar="[NAME,...]", is_flag=False, flag_value="", help="Weaken these rules of the "
    "product, or all that can be, one at a time, and count the seeds until each is noticed.")  # fmt: skip
def command(
    seeds: int,
    seed: int,
    faults: str | None,
    operations: str | None,
    seconds: float,
    jobs: int | None,
    scenario: Path | None,
    stories: Path,
    shrink: bool,
    keep_going: bool,
    as_json: bool,
    mutations: str | None,
) -> None:
    """Run simulated clusters under random faults, and check what must hold.

    Each seed is three to five brokers, their ZooKeeper, idempotent and transactional producers, groups and an operator,
    on one virtual clock. Exits with 1 where something did not hold; with --mutations, where one was not noticed.
    """
    if scenario is not None:
        if as_json:
            raise click.UsageError("--json does not go with --scenario, whose story is told as text")
        _replay(scenario)
        return
    from simulation.soup.batch import Mix, run_seeds
    from simulation.soup.faults import FAULTS
    from simulation.soup.operations import OPERATIONS

    mix = Mix(
        _chosen(faults, tuple(FAULTS), "faults"),
        _chosen(operations, tuple(OPERATIONS), "operations"),
        seconds,
    )
    count = jobs or os.cpu_count() or 1
    if mutations is not None:
        from simulation.soup.mutations import MUTATIONS

        names = _chosen(mutations or None, tuple(MUTATIONS), "mutations")
        if not score(names, range(seed, seed + seeds), mix, count, as_json=as_json):
            sys.exit(1)
        return
    report = _Report(seeds, as_json=as_json)
    failed = 0
    try:
        for outcome in run_seeds(range(seed, seed + seeds), mix, count):
            report.add(outcome)
            if outcome.violation:
                failed += 1
                report.end_line()
                report.note_failure(seed=outcome.plan.seed, violation=outcome.violation)
                _tell(outcome, stories, shrink=shrink, prints=not as_json)
                if not keep_going:
                    break
    except KeyboardInterrupt:
        report.end_line()
        click.echo("interrupted", err=True)
    report.end()
    if failed:
        sys.exit(1)


def _replay(scenario: Path) -> None:
    from simulation.soup.batch import workers
    from simulation.soup.faults import FAULTS
    from simulation.soup.operations import OPERATIONS
    from simulation.soup.plan import PlanError, read_plan
    from simulation.soup.run import run_plan
    from simulation.soup.story import story

    with failing_on(PlanError, OSError):
        plan = read_plan(scenario.read_text(), {*FAULTS, *OPERATIONS})
    with workers(1) as pool:
        outcome = pool.submit(run_plan, plan).result()
    click.echo(story(outcome), nl=False)
    if outcome.violation:
        sys.exit(1)


def _tell(outcome: "Outcome", stories: Path, *, shrink: bool, prints: bool) -> None:
    """Write a failure, made short, to two files, and say where they are and how it is replayed."""
    from simulation.soup.batch import workers
    from simulation.soup.run import run_plan
    from simulation.soup.shrink import shrink as make_short
    from simulation.soup.story import story

    seed = outcome.plan.seed
    click.echo(f"seed {seed}: {outcome.violation}", err=True)
    if shrink:

        def note(number: int, left: int) -> None:
            if sys.stderr.isatty():
                click.echo(f"\rshrinking: try {number}, {left} happenings left ", err=True, nl=False)

        with workers(1) as pool:
            outcome = make_short(outcome, lambda plan: pool.submit(run_plan, plan).result(), note)
        if sys.stderr.isatty():
            click.echo(err=True)
    with failing_on(OSError):
        stories.mkdir(parents=True, exist_ok=True)
        scenario = stories / f"seed-{seed}.toml"
        scenario.write_text(outcome.plan.as_toml())
        (stories / f"seed-{seed}.txt").write_text(story(outcome))
    if prints:
        click.echo(story(outcome), nl=False)
    click.echo(f"replay it: ottla simulate --scenario {scenario}", err=True)


def _chosen(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return the names in an option's value; all of them where it is not given.

    Raises:
        CommandError: one is unknown.
    """
    if text is None:
        return known
    names = tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "none"))
    for name in names:
        if name not in known:
            raise CommandError(f"there is no {name!r} among the {what}: {', '.join(known)}")
    return names


class _Report:
    """What is shown while runs go on, and in the end."""

    def __init__(self, wanted: int, *, as_json: bool) -> None:
        from timing.clock import SystemClock

        self._wanted = wanted
        self._as_json = as_json
        self._failures: list[dict[str, object]] = []
        self._monotonic = SystemClock().monotonic
        self._begun = self._monotonic()
        self._runs = 0
        self._failed = 0
        self._seconds = 0.0
        self._acknowledged = 0
        self._seen: Counter[str] = Counter()

    def add(self, outcome: "Outcome") -> None:
        """Count a run."""
        self._runs += 1
        self._failed += bool(outcome.violation)
        self._seconds += outcome.seconds
        self._acknowledged += outcome.acknowledged
        self._seen.update(outcome.seen)
        if sys.stderr.isatty():
            click.echo(f"\r{self._line()}  ", err=True, nl=False)

    def note_failure(self, **what: object) -> None:
        """Keep what failed, for programs."""
        self._failures.append(what)

    def end_line(self) -> None:
        """Leave the line that is written again and again."""
        if sys.stderr.isatty():
            click.echo(err=True)

    def end(self) -> None:
        """Print the sums."""
        self.end_line()
        if self._as_json:
            sums = {
                "seeds": self._runs,
                "failures": self._failures,
                "simulated_s": round(self._seconds, 3),
                "acknowledged": self._acknowledged,
                "seen": dict(sorted(self._seen.items())),
            }
            click.echo(json.dumps(sums))
            return
        click.echo(self._line())
        for name, count in sorted(self._seen.items()):
            click.echo(f"  {count:8,}  {name}")

    def _line(self) -> str:
        elapsed = max(self._monotonic() - self._begun, 0.001)
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"{self._runs:,} of {self._wanted:,} seeds{failed}: {self._seconds / 3600:.2f} simulated hours, "
            f"{self._seconds / elapsed:.1f} x real time, {self._acknowledged:,} records acknowledged"
        )
