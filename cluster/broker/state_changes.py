"""The state changes of a broker: written to the journal, and streamed to listeners on the management socket."""

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from cluster.journal.writer import StateJournal

EVENTS_KEPT_MAX: Final = 1000
"""Events that wait for one slow listener; the oldest are dropped, and the listener learns how many."""


class StateChanges:
    """The state changes of a broker, written to the journal and handed to listeners.

    Attributes:
        journal: Where every change is written; None while there is no journal.
    """

    def __init__(self) -> None:
        self.journal: StateJournal | None = None
        self._listeners: dict[_Listener, None] = {}

    def publish(self, kind: str, **what: Any) -> None:
        """Write a change to the journal, and hand it to every listener. Never waits.

        Args:
            kind: What happened.
            what: What it happened to, in types that msgpack can encode.
        """
        if self.journal is not None:
            self.journal.note(kind, what)
        for listener in self._listeners:
            listener.put({"kind": kind, **what})

    async def listen(self) -> AsyncIterator[dict[str, Any]]:
        """Yield each event from now on, for as long as the caller listens."""
        listener = _Listener()
        self._listeners[listener] = None
        try:
            while True:
                yield await listener.get()
        finally:
            del self._listeners[listener]


class _Listener:
    def __init__(self) -> None:
        self._events: deque[dict[str, Any]] = deque()
        self._dropped = 0
        self._arrived = trio.Event()

    def put(self, event: dict[str, Any]) -> None:
        if len(self._events) >= EVENTS_KEPT_MAX:
            self._events.popleft()
            self._dropped += 1
        self._events.append(event)
        self._arrived.set()

    async def get(self) -> dict[str, Any]:
        while not self._events:
            self._arrived = trio.Event()
            await self._arrived.wait()
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            return {"kind": "dropped", "count": dropped}
        return self._events.popleft()
