"""A budget of bytes with waiters who are served in the order they came. No I/O.

A grant is a call: what waits for room is done at the moment the room is there, in order, so that nobody can slip in
between. One who comes later waits behind, even where a smaller piece would fit.
"""

from collections import OrderedDict
from collections.abc import Callable


class MemoryBudget:
    """Bytes to be taken and released.

    Args:
        capacity: How many there are.

    Attributes:
        capacity: How many there are.
        available: How many are free now.
    """

    __slots__ = ("_next", "available", "capacity", "waiters")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.available = capacity
        self.waiters: OrderedDict[int, tuple[int, Callable[[], None]]] = OrderedDict()
        self._next = 0

    def take_nowait(self, size: int) -> bool:
        """Take bytes; return False where they are not free, or others wait for theirs."""
        if self.waiters or size > self.available:
            return False
        self.available -= size
        return True

    def take_later(self, size: int, grant: Callable[[], None]) -> int:
        """Wait in line; ``grant`` is called when the bytes are taken.

        Returns:
            A number to cancel by.
        """
        self._next += 1
        self.waiters[self._next] = (size, grant)
        return self._next

    def cancel(self, number: int) -> None:
        """Leave the line; those behind are served if they fit now."""
        self.waiters.pop(number, None)
        self._serve()

    def release(self, size: int) -> None:
        """Return bytes, and serve those in line, first come first."""
        self.available += size
        if self.waiters:
            self._serve()

    def _serve(self) -> None:
        while self.waiters:
            number, (size, grant) = next(iter(self.waiters.items()))
            if size > self.available:
                return
            del self.waiters[number]
            self.available -= size
            grant()
