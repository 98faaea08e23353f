"""Brokers die at writes of each kind of change to a cluster: here at some of them; run this file for all.

    python -m tests.simulation.test_deaths [STORY ...]

runs every story once for each of its writes, of each kind, with each victim: a few minutes.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.simulation.deaths import Death, deaths, report_all, tell
from tests.simulation.stories import STORIES

TOLD_OF_EACH = 6


def spread(story: str) -> list[Death]:
    """Return some of the deaths of a story, evenly spread over its writes, victims and kinds."""
    every = list(deaths(*STORIES[story]))
    step = max(1, len(every) // TOLD_OF_EACH)
    return every[step // 2 :: step]


@pytest.mark.parametrize("story", STORIES)
def test_brokers_die_at_some_writes_of(story: str) -> None:
    chosen = spread(story)
    assert len(chosen) >= TOLD_OF_EACH
    for death in chosen:
        tell(STORIES[story][0], 2, death)


def every_death_of(name: str) -> Iterator[tuple[Death, Callable[[], object]]]:
    """Yield each death of a story, with the function that runs it."""
    story, victims = STORIES[name]
    for death in deaths(story, victims):
        yield death, partial(tell, story, 2, death)


def main(names: list[str]) -> int:
    """Run everything; return how many deaths did not end well."""
    return report_all({name: partial(every_death_of, name) for name in names or STORIES})


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 125))
