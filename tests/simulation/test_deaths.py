"""Brokers die at writes of everything that is done to a cluster: a part of all deaths; the rest by running this file.

    python -m tests.simulation.test_deaths [STORY ...]

tells every story once for each of its writes, of each kind, with each victim: a few minutes.
"""

import logging
import sys
import time

import pytest

from tests.simulation.deaths import Death, deaths, tell
from tests.simulation.stories import STORIES

TOLD_OF_EACH = 6


def spread(story: str) -> list[Death]:
    """Return some of the deaths of a story, evenly spread over its writes, victims and kinds."""
    every = list(deaths(*STORIES[story]))
    step = max(1, len(every) // TOLD_OF_EACH)
    return every[step // 2 :: step]


@pytest.mark.parametrize("story", STORIES)
def test_brokers_die_at_some_writes_of(story: str) -> None:
    told = spread(story)
    assert len(told) >= TOLD_OF_EACH
    for death in told:
        tell(STORIES[story][0], 2, death)


def main(names: list[str]) -> int:
    """Tell everything; returns how many stories did not end well."""
    logging.disable(logging.CRITICAL)
    failed = 0
    for name in names or STORIES:
        began, count = time.monotonic(), 0
        for death in deaths(*STORIES[name]):
            count += 1
            try:
                tell(STORIES[name][0], 2, death)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed += 1
                sys.stdout.write(f"{name}: {death}: {error!r}\n")
        sys.stdout.write(f"{name}: {count} deaths in {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 125))
