"""Plans of simulated runs: drawn from a seed, written, read, and shortened."""

import pytest

from simulation.soup.batch import Mix
from simulation.soup.faults import FAULTS
from simulation.soup.operations import OPERATIONS
from simulation.soup.plan import Happening, Plan, PlanError, read_plan
from simulation.soup.run import Outcome
from simulation.soup.shrink import shrink
from simulation.soup.story import story

KINDS = {*FAULTS, *OPERATIONS}


def plan_of(*kinds: str) -> Plan:
    return Plan(7, 3, False, 10.0, tuple(Happening(float(at), kind) for at, kind in enumerate(kinds)))


@pytest.mark.parametrize("seed", range(50))
def test_a_plan_is_the_same_for_a_seed_and_after_it_was_written(seed: int) -> None:
    plan = Mix().plan(seed)
    assert plan == Mix().plan(seed)
    assert read_plan(plan.as_toml(), KINDS) == plan
    assert all(0 <= each.at <= plan.seconds for each in plan.happenings)


def test_different_seeds_give_every_kind() -> None:
    seen = {each.kind for seed in range(200) for each in Mix().plan(seed).happenings}
    assert seen == KINDS


def test_only_what_was_chosen_is_drawn() -> None:
    mix = Mix(faults=("kill",), operations=())
    assert {each.kind for seed in range(50) for each in mix.plan(seed).happenings} == {"kill"}
    assert Mix(faults=(), operations=()).plan(1).happenings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("seed = ", "this is no scenario"),
        ("seed = 1", "this is no scenario"),
        (
            "seed=1\nbrokers=3\ndurable=false\nseconds=1.0\n[[happening]]\nat=1.0\nkind='melt'",
            "there is no 'melt'",
        ),
        (
            "seed=1\nbrokers=3\ndurable=false\nseconds=1.0\n[[happening]]\nat=1.0\nkind='kill'\nbroker=3",
            "there is no broker 3 among 3",
        ),
    ],
)
def test_what_is_no_scenario_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        read_plan(text, KINDS)


def test_a_failure_is_made_as_short_as_it_can_be() -> None:
    def run(plan: Plan) -> Outcome:
        kinds = [each.kind for each in plan.happenings]
        fails = "kill" in kinds and "power" in kinds
        return Outcome(plan, kind="I1" if fails else "", violation="I1: lost" if fails else "")

    noise = ["cut", "stall", "clock", "expire"]
    long = run(plan_of(*noise, "kill", *noise, "power", *noise))
    assert [each.kind for each in shrink(long, run, lambda _, __: None).plan.happenings] == ["kill", "power"]


def test_another_failure_does_not_count_when_it_is_made_short() -> None:
    def run(plan: Plan) -> Outcome:
        count = len(plan.happenings)
        return Outcome(plan, kind="I1" if count == 4 else "I2", violation="something")

    long = run(plan_of("kill", "cut", "stall", "clock"))
    assert shrink(long, run, lambda _, __: None) is long


def test_the_tries_are_counted() -> None:
    tries = []
    long = Outcome(plan_of(*["kill"] * 8), kind="I1")
    shrink(long, lambda plan: Outcome(plan), lambda number, left: tries.append((number, left)), tries_max=3)
    assert tries == [(1, 8), (2, 8), (3, 8)]


def test_a_story_says_what_was_planned_what_happened_and_what_failed() -> None:
    outcome = Outcome(plan_of("kill"), violation="I1: a record is lost", log=[(0.5, "broker 0 is killed")])
    text = story(outcome)
    assert "Seed 7: 3 brokers" in text
    assert "I1: a record is lost" in text
    assert "0.000 s  kill           broker 0" in text
    assert "   0.500 s  broker 0 is killed" in text
