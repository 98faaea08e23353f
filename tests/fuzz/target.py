"""The targets of a fuzzer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Finding(Exception):
    """An input did what none is allowed to."""


@dataclass(frozen=True)
class Target:
    """What inputs are thrown at.

    Attributes:
        name: For the report.
        share: The fraction of a run's inputs that it gets.
        seeds: Honest inputs, each a list of messages, which are mutated.
        run: Takes the messages; raises Finding.
    """

    name: str
    share: float
    seeds: Sequence[Sequence[bytes]]
    run: Callable[[Sequence[bytes]], None]
