"""Harm a cluster under copiers for minutes: ``python -m tests.integration.transactions --seconds 300 --seed 7``."""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ottla.testing import Cluster
from tests.integration.transactions.checker import SETTINGS, Checker
from tests.integration.transactions.harms import HARMS, crash_points
from timing.clock import SystemClock


def chosen(names: list[str], seconds: float, seed: int) -> Iterator[str]:
    """Return harms until the time is over."""
    clock, chance = SystemClock(), random.Random(seed)
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        yield chance.choice(names)


def main() -> int:
    """Run once; returns 0 where all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--harms", nargs="+", choices=list(HARMS), default=list(HARMS))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="transactions-"))
    sys.stdout.write(f"in {directory}\n")
    with (
        crash_points(directory / "crashes"),
        Cluster.up(directory / "data", brokers=3, overrides=SETTINGS) as cluster,
        Checker(cluster, directory, options.seed) as checker,
    ):
        checker.harm(chosen(options.harms, options.seconds, options.seed))
        checker.finish()
        sys.stdout.write(f"all is well: {checker.describe()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
