"""Where the callers of the controller's APIs wait, each with a ticket, while their calls stand in the queue."""

import trio

from cluster.controller.calls import Call
from cluster.controller.event_queue import CallsOverflowError, EventQueue
from cluster.controller.events import CallReceived
from wire.errors import ApiError, Error


class _Waiting:
    __slots__ = ("done", "outcome")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome: object = None


class PendingCalls:
    """Hands tickets to callers, and outcomes to the tickets' holders."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._waiting: dict[int, _Waiting] = {}
        self._next_ticket = 0

    async def call(self, call: Call) -> object:
        """Queue a call and wait for its outcome. Cancelled, the call may still be carried out.

        Raises:
            ApiError: it was refused, or too many calls wait already (REQUEST_TIMED_OUT).
        """
        ticket = self._next_ticket
        self._next_ticket += 1
        waiting = self._waiting[ticket] = _Waiting()
        try:
            self._queue.put(CallReceived(ticket, call))
            await waiting.done.wait()
        except CallsOverflowError:
            raise ApiError(Error.REQUEST_TIMED_OUT, "too many calls wait for the controller") from None
        finally:
            del self._waiting[ticket]
        if isinstance(waiting.outcome, ApiError):
            raise waiting.outcome
        return waiting.outcome

    def is_waited_for(self, ticket: int) -> bool:
        """Whether the caller still waits."""
        return ticket in self._waiting

    def finish(self, ticket: int, outcome: object) -> None:
        """Return a call's outcome, or the `ApiError` that refuses it, to its caller; only the first counts."""
        waiting = self._waiting.get(ticket)
        if waiting is not None and not waiting.done.is_set():
            waiting.outcome = outcome
            waiting.done.set()

    def refuse_waiting(self) -> None:
        """Refuse every call in the queue: we are not, or no longer, the controller."""
        for event in self._queue.take_all(CallReceived):
            self.finish(event.ticket, ApiError(Error.NOT_CONTROLLER))
