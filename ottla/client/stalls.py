"""Whether the program asks for a group's batches: a member whose program has stalled should release its partitions."""

from types import TracebackType

from ottla.client import runtime


class Asking:
    """Used as ``with`` around each wait for a batch.

    Attributes:
        since: When a batch was asked for last, on the loop's clock; only of meaning while none is.
    """

    def __init__(self) -> None:
        self.since = runtime.current_time()
        self._going_on = 0
        self._next = runtime.new_event()
        self._ended = runtime.new_event()

    @property
    def is_going_on(self) -> bool:
        """Whether a task waits for a batch."""
        return self._going_on > 0

    def note(self) -> None:
        """Count as if a batch had been asked for."""
        self.since = runtime.current_time()
        self._next.set()

    def next_time(self) -> runtime.Event:
        """Return an event that is set when a batch is asked for next."""
        self._next = runtime.new_event()
        return self._next

    async def wait_ended(self) -> None:
        """Wait until no task waits for a batch."""
        while self._going_on:
            if self._ended.is_set():
                self._ended = runtime.new_event()
            await self._ended.wait()

    def __enter__(self) -> None:
        self._going_on += 1
        self._next.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._going_on -= 1
        self.since = runtime.current_time()
        if not self._going_on:
            self._ended.set()
