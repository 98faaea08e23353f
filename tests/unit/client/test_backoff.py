"""Exponential back-off (KIP-580)."""

import random

from ottla.client.backoff import Backoff


def test_every_wait_is_within_its_bounds() -> None:
    for seed in range(1000):
        backoff = Backoff(0.1, 1.0, random.Random(seed))
        for failures in range(12):
            wait = backoff.delay_s(failures)
            grown = 0.1 * 2**failures
            assert min(1.0, grown * 0.8) <= wait <= min(1.0, grown * 1.2)


def test_the_maximum_holds_after_the_jitter_and_for_any_number_of_failures() -> None:
    backoff = Backoff(0.05, 1.0, random.Random(0))
    assert max(backoff.delay_s(failures) for failures in range(5000)) == 1.0
