"""Requests that wait for the markers of the preceding transaction, instead of being refused.

A client that has committed begins its next transaction at once, and meets the markers of the last one, which are
written in a millisecond or two. Kafka refuses it with CONCURRENT_TRANSACTIONS, and clients pause for 20 ms or more.
"""

from collections.abc import Callable
from typing import Final

from cluster.statemachines.transaction import Transaction
from timing.timing_wheel import CallTimer, Timer

WAIT_MAX_MS: Final = 20
"""How long a request waits: no longer than a client would pause."""


class ParkedRequests:
    """The waiting requests, by the transaction that they wait for.

    Args:
        timer: Ends waits.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._waiting: dict[Transaction, dict[CallTimer, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return sum(len(each) for each in self._waiting.values())

    def park(self, transaction: Transaction, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` once, when the transaction is complete or `WAIT_MAX_MS` have passed."""
        waiting = self._waiting.setdefault(transaction, {})

        def expire() -> None:
            del waiting[timer]
            if not waiting and self._waiting.get(transaction) is waiting:
                del self._waiting[transaction]
            go_on()

        timer = CallTimer(expire)
        waiting[timer] = go_on
        self._timer.add(timer, WAIT_MAX_MS)

    def release(self, transaction: Transaction) -> None:
        """Continue the requests that wait for a transaction, in their order."""
        waiting = self._waiting.pop(transaction, None)
        for timer, go_on in tuple((waiting or {}).items()):
            self._timer.cancel(timer)
            go_on()
