"""The one way into the controller: events wait here, nearly all first in, first out, until its task takes them."""

from collections import OrderedDict
from typing import Final, TypeVar, cast

import trio

from cluster.controller.events import BrokersChanged, CallReceived, ControllerEvent

MAX_WAITING_CALLS: Final = 10_000
"""API calls that may wait. All other events are bounded by what can be watched: equal ones are stored once."""

_Event = TypeVar("_Event")


class CallsOverflowError(Exception):
    """Too many calls wait for the controller."""


class EventQueue:
    """A queue that holds equal "look again" events only once."""

    def __init__(self) -> None:
        self._events: OrderedDict[ControllerEvent, None] = OrderedDict()
        self._filled = trio.Event()
        self._calls = 0

    def __len__(self) -> int:
        return len(self._events)

    def __contains__(self, event: ControllerEvent) -> bool:
        return event in self._events

    def put(self, event: ControllerEvent) -> None:
        """Add an event at the end, unless an equal one waits already: looking once is enough.

        A broker that came or went is dealt with first: clients of the partitions that it led wait for that.

        Raises:
            CallsOverflowError: the event is a call, and too many wait already.
        """
        if isinstance(event, CallReceived):
            if self._calls >= MAX_WAITING_CALLS:
                raise CallsOverflowError
            self._calls += 1
        is_new = event not in self._events
        self._events.setdefault(event)
        if is_new and isinstance(event, BrokersChanged):
            self._events.move_to_end(event, last=False)
        self._filled.set()

    def put_first(self, event: ControllerEvent) -> None:
        """Add an event in front of all others."""
        self._events[event] = None
        self._events.move_to_end(event, last=False)
        self._filled.set()

    async def get(self) -> ControllerEvent:
        """Take the first event, waiting for one. Cancelled, it takes none."""
        while not self._events:
            self._filled = trio.Event()
            await self._filled.wait()
        event, _ = self._events.popitem(last=False)
        self._calls -= isinstance(event, CallReceived)
        return event

    def take_all(self, kind: type[_Event]) -> list[_Event]:
        """Take every waiting event of a kind, to deal with all of them at once."""
        taken = [event for event in self._events if isinstance(event, kind)]
        for event in taken:
            del self._events[event]
            self._calls -= isinstance(event, CallReceived)
        return cast(list[_Event], taken)
