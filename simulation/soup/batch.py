"""Many runs, in processes beside this one: each seed's outcome as soon as it is known."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Final

from simulation.soup.faults import FAULTS
from simulation.soup.mutations import MUTATIONS
from simulation.soup.operations import OPERATIONS
from simulation.soup.plan import Plan, make_plan
from simulation.soup.run import Outcome, run_plan

SECONDS: Final = 30.0
FAULTS_MAX: Final = 12
OPERATIONS_MAX: Final = 8
_RUNS_OF_A_PROCESS: Final = 200
_HASH_SEED: Final = "PYTHONHASHSEED"


@dataclass(frozen=True, slots=True)
class Mix:
    """The kinds of faults and operations that plans are drawn from, and their limits.

    Attributes:
        faults: Names in `FAULTS`.
        operations: Names in `OPERATIONS`.
        seconds: How long faults go on in each run.
        faults_max: The most faults of a run.
        operations_max: The most operations of a run.
    """

    faults: Sequence[str] = tuple(FAULTS)
    operations: Sequence[str] = tuple(OPERATIONS)
    seconds: float = SECONDS
    faults_max: int = FAULTS_MAX
    operations_max: int = OPERATIONS_MAX

    def plan(self, seed: int) -> Plan:
        """Draw a plan from a seed."""
        return make_plan(
            seed,
            {name: FAULTS[name][1] for name in self.faults},
            {name: OPERATIONS[name][1] for name in self.operations},
            seconds=self.seconds,
            faults_max=self.faults_max,
            operations_max=self.operations_max,
        )


def run_seeds(seeds: Iterable[int], mix: Mix, jobs: int) -> Iterator[Outcome]:
    """Carry out the plans of seeds, several at once, and yield each outcome as soon as it is known.

    Only a failure carries its story.

    Args:
        seeds: The seeds.
        mix: What plans are drawn from.
        jobs: How many processes.
    """
    with workers(jobs) as pool:
        remaining = iter(seeds)
        begun: set[Future[Outcome]] = set()
        while True:
            for seed in islice(remaining, 2 * jobs - len(begun)):
                begun.add(pool.submit(partial(_run_seed, seed, mix)))
            if not begun:
                return
            done, begun = wait(begun, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()


@dataclass(frozen=True, slots=True)
class Hunt:
    """The outcome of the search for a mutation.

    Attributes:
        name: The mutation's.
        seeds: How many seeds were run, the one that noticed it included.
        caught: The run that noticed it; None where none did.
    """

    name: str
    seeds: int
    caught: Outcome | None


def hunt(names: Iterable[str], seeds: Sequence[int], mix: Mix, jobs: int) -> Iterator[Hunt]:
    """Run seeds with each of some mutations until something does not hold; yield each result as soon as it is known.

    Args:
        names: Names in `MUTATIONS`.
        seeds: The seeds, in the order to run.
        mix: What plans are drawn from.
        jobs: How many processes; each hunts for one mutation.
    """
    with workers(jobs) as pool:
        begun = [pool.submit(_hunt_one, name, seeds, mix) for name in names]
        for each in as_completed(begun):
            yield each.result()


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Open processes in which the same seed means the same run."""
    before = os.environ.get(_HASH_SEED)
    os.environ[_HASH_SEED] = "0"
    pool = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_quieten, max_tasks_per_child=_RUNS_OF_A_PROCESS
    )
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if before is None:
            del os.environ[_HASH_SEED]
        else:
            os.environ[_HASH_SEED] = before


def _quieten() -> None:
    import logging
    import signal

    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends its workers


def _run_seed(seed: int, mix: Mix) -> Outcome:
    outcome = run_plan(mix.plan(seed))
    if not outcome.violation:
        outcome.log.clear()
    return outcome


def _hunt_one(name: str, seeds: Sequence[int], mix: Mix) -> Hunt:
    with MUTATIONS[name].applied():
        for count, seed in enumerate(seeds, 1):
            outcome = run_plan(mix.plan(seed))
            if outcome.violation:
                return Hunt(name, count, outcome)
    return Hunt(name, len(seeds), None)
