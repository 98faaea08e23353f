"""Making a failing plan short: fewer faults and operations, with the same failure (Zeller's delta debugging)."""

from collections.abc import Callable

from simulation.soup.plan import Plan
from simulation.soup.run import Outcome


def shrink(
    failing: Outcome, run: Callable[[Plan], Outcome], note: Callable[[int, int], None], tries_max: int = 200
) -> Outcome:
    """Leave out happenings for as long as the run fails in the same way.

    Args:
        failing: A run that failed.
        run: Carries out a plan.
        note: Called before each try, with the number of the try and how many happenings are left.
        tries_max: The most runs to spend.

    Returns:
        The failing run with the fewest happenings that was found; `failing` itself where none can go.
    """
    best = failing
    parts = 2
    tries = 0
    while len(best.plan.happenings) >= 1 and tries < tries_max:
        happenings = best.plan.happenings
        size = max(1, len(happenings) // parts)
        for begin in range(0, len(happenings), size):
            if tries == tries_max:
                return best
            tries += 1
            note(tries, len(happenings))
            outcome = run(best.plan.with_happenings(happenings[:begin] + happenings[begin + size :]))
            if outcome.kind == failing.kind:
                best = outcome
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                return best
            parts = min(parts * 2, len(happenings))
    return best
