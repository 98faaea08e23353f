"""A budget of bytes with waiters who are served in the order they came. No I/O.

A grant is a callback: it runs at the moment the room is there, in order, so that nothing can slip in between. A later
request waits behind earlier ones, even if it is smaller and would fit.
"""

from collections import OrderedDict
from collections.abc import Callable


class MemoryBudget:
    """Bytes to be taken and released.

    Args:
        capacity: How many there are.

    Attributes:
        capacity: How many there are.
        free: How many may be taken now; none while others wait.
        waiters: Those who wait, oldest first.
    """

    __slots__ = ("_kept_back", "_next", "capacity", "free", "waiters")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free = capacity
        self._kept_back = 0
        self.waiters: OrderedDict[int, tuple[int, Callable[[], None]]] = OrderedDict()
        self._next = 0

    @property
    def available(self) -> int:
        """How many are not taken, those that waiters are in line for included."""
        return self.free + self._kept_back

    def take_nowait(self, size: int) -> bool:
        """Take bytes; return False where they are not free, or others wait for theirs."""
        if self.waiters or size > self.free:
            return False
        self.free -= size
        return True

    def take_later(self, size: int, grant: Callable[[], None]) -> int:
        """Wait in line; ``grant`` is called when the bytes are taken.

        Returns:
            A number to cancel by.
        """
        self._kept_back += self.free
        self.free = 0
        self._next += 1
        self.waiters[self._next] = (size, grant)
        return self._next

    def cancel(self, number: int) -> None:
        """Leave the line; those behind are served if they fit now."""
        self.waiters.pop(number, None)
        self._serve()

    def release(self, size: int) -> None:
        """Return bytes, and serve those in line, first come first."""
        if self.waiters:
            self._kept_back += size
            self._serve()
        else:
            self.free += size

    def _serve(self) -> None:
        while self.waiters:
            number, (size, grant) = next(iter(self.waiters.items()))
            if size > self._kept_back:
                return
            del self.waiters[number]
            self._kept_back -= size
            grant()
        self.free += self._kept_back
        self._kept_back = 0
