"""What a fuzzer throws its inputs at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Finding(Exception):
    """An input did what none may."""


@dataclass(frozen=True)
class Target:
    """What inputs are thrown at.

    Attributes:
        name: For the report.
        share: How many of a run's inputs it gets, as a part of 1.
        seeds: Honest inputs, each a list of messages, which are mutated.
        run: Takes the messages; raises Finding.
    """

    name: str
    share: float
    seeds: Sequence[Sequence[bytes]]
    run: Callable[[Sequence[bytes]], None]
