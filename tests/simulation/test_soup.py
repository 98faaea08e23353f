"""Everything at once on simulated clusters: the invariants hold, one seed is one run, and broken code is found."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from simulation.soup.batch import Mix
from simulation.soup.mutations import MUTATIONS
from simulation.soup.plan import Happening, Plan
from simulation.soup.run import Outcome, run_plan
from simulation.soup.story import story

SHORT = Mix(seconds=10.0, faults_max=8, operations_max=5)
NOTHING = Plan(1, 3, False, 5.0)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


def holds(outcome: Outcome) -> bool:
    assert not outcome.violation, story(outcome)
    return True


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_must_hold_does(seed: int) -> None:
    outcome = run_plan(SHORT.plan(seed))
    assert holds(outcome)
    assert outcome.acknowledged > 30


def test_a_batch_of_a_leader_that_died_is_not_written_again_by_one_that_was_restarted() -> None:
    happenings = (
        Happening(0.121, "kill-unguarded", 1, lasts=1.841),
        Happening(1.153, "rolling-restart"),
    )
    assert holds(run_plan(Plan(1, 4, False, 12.0, happenings)))


def test_one_plan_means_one_run() -> None:
    plan = Plan(
        11,
        3,
        False,
        6.0,
        (
            Happening(1.0, "kill", 0, lasts=0.5),
            Happening(2.0, "cut", 1, 2, lasts=1.0),
            Happening(3.0, "reassign", 0, 1, amount=1),
        ),
    )
    first, second = run_plan(plan), run_plan(plan)
    assert holds(first)
    assert (first.digest, first.log, first.seen, first.seconds) == (
        second.digest,
        second.log,
        second.seen,
        second.seconds,
    )


def test_a_broker_that_stays_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do_nothing(self: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("simulation.soup.run.Run._keep_up", do_nothing)
    monkeypatch.setattr("simulation.soup.run.HEALED_WITHIN_S", 5.0)
    outcome = run_plan(Plan(1, 3, False, 4.0, (Happening(2.0, "kill", 1, lasts=100.0),)))
    assert outcome.violation == (
        "hang: not within 5 s: every partition led, with all its replicas in sync; only the brokers [0, 2] run"
    )


def test_a_bug_is_an_outcome_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr("simulation.soup.checks.Watcher.look", broken)
    outcome = run_plan(NOTHING)
    assert outcome.kind == "bug KeyError"
    assert "a bug of ours" in outcome.trace


@pytest.mark.parametrize("name", ["answer-before-high-watermark", "high-watermark-of-the-leader"])
def test_a_weakened_rule_is_noticed(name: str) -> None:
    apart = [Happening(3.0, "cut", one, other, lasts=3.0) for one, other in ((0, 1), (0, 2), (1, 2))]
    with MUTATIONS[name].applied():
        outcome = run_plan(Plan(1, 3, False, 6.0, (*apart, Happening(4.0, "kill", 0, lasts=1.0))))
    assert outcome.kind in ("I1", "I4"), story(outcome)


def test_the_command_says_which_mutations_were_noticed(tmp_path: Path) -> None:
    name = "hide-rebalances"
    command = [sys.executable, "-m", "ottla", "simulate", "--mutations", name, "--seeds", "1", "--jobs", "1"]
    ran = subprocess.run(
        [*command, "--faults", "none", "--operations", "none", "--seconds", "1"],
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.splitlines()[1:] == [
        "|---|---|---|---|",
        "| `hide-rebalances` | members do not learn from their heartbeats that a rebalance has begun | nothing | 1 |",
        "",
        "0 of 1 mutations were noticed.",
    ]


def test_the_command_runs_seeds_replays_a_scenario_and_refuses_unknown_kinds(tmp_path: Path) -> None:
    def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla", "simulate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)

    ran = simulate("--seeds", "1", "--seconds", "2", "--jobs", "1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("1 of 1 seeds: ")

    scenario = tmp_path / "kill.toml"
    scenario.write_text(Plan(3, 3, False, 2.0, (Happening(1.0, "kill", 0, lasts=0.5),)).as_toml())
    replayed = simulate("--scenario", str(scenario))
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert "broker 0 is killed" in replayed.stdout

    refused = simulate("--faults", "melt")
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: there is no 'melt' among the faults: kill, ")
