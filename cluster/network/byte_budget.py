"""How many bytes may be in flight in one broker, over all its connections (``queued.max.request.bytes``)."""

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = 1 << 62


class ByteBudget:
    """Bytes in flight against a limit, and the connections that wait for some to be released.

    The limit is soft by one request a connection: a connection with nothing in flight always goes on. So a replica's
    fetch, which acknowledgements wait for, never waits for those acknowledgements.

    Args:
        limit: The bound in bytes; zero or less means none.
    """

    __slots__ = ("_waiting", "limit", "used")

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit if limit > 0 else UNLIMITED
        self.used = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def call_when_free(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, once, when less than the limit is in use."""
        self._waiting[callback] = None

    def release(self, size: int) -> None:
        """Take `size` bytes out of flight and wake those who wait, if there is room."""
        self.used -= size
        if self._waiting and self.used < self.limit:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()
