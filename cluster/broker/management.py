"""What a broker tells on its management socket: itself, and what happens to it while one listens."""

import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from cluster.network.management import ManagementError, Method

if TYPE_CHECKING:
    from cluster.broker.broker import Broker
    from cluster.journal.writer import StateJournal

EVENTS_KEPT_MAX: Final = 1000
"""Events that wait for one slow listener; the oldest go, and the listener is told how many."""


class StateChanges:
    """What happens to a broker, written down and handed to whoever listens.

    Attributes:
        journal: Where everything is noted; None while there is none.
    """

    def __init__(self) -> None:
        self.journal: StateJournal | None = None
        self._listeners: dict[_Listener, None] = {}

    def publish(self, kind: str, **what: Any) -> None:
        """Note an event, and tell every listener of it. Never waits.

        Args:
            kind: What happened.
            what: What it happened to, made of what msgpack knows.
        """
        if self.journal is not None:
            self.journal.note(kind, what)
        for listener in self._listeners:
            listener.put({"kind": kind, **what})

    async def listen(self) -> AsyncIterator[dict[str, Any]]:
        """Return each event from now on, for as long as the caller listens."""
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


def management_methods(broker: "Broker") -> dict[str, Method]:
    """Return what can be asked of a broker, by name.

    `describe` tells everything at once; `partitions` only the replicas it hosts; `metrics` the counters and
    gauges; `wait_ready` answers when the broker serves, or after `timeout_ms` with whether it does;
    `changes` streams what happens; `stop` has it leave in good order.
    """

    async def describe(params: Mapping[str, Any]) -> object:
        return broker.describe(partitions=bool(params.get("partitions", True)))

    async def partitions(_: Mapping[str, Any]) -> object:
        return broker.describe_partitions()

    async def metrics(_: Mapping[str, Any]) -> object:
        return broker.metrics.registry.values()

    async def wait_ready(params: Mapping[str, Any]) -> object:
        timeout_ms = params.get("timeout_ms")
        if timeout_ms is not None and not isinstance(timeout_ms, int | float):
            raise ManagementError("timeout_ms is not a number")
        with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000):
            await broker.ready.wait()
        return broker.ready.is_set()

    async def changes(_: Mapping[str, Any]) -> AsyncIterator[object]:
        async for event in broker.changes.listen():
            yield event

    async def stop(_: Mapping[str, Any]) -> object:
        broker.stop()
        return True

    return {
        "describe": describe,
        "partitions": partitions,
        "metrics": metrics,
        "wait_ready": wait_ready,
        "changes": changes,
        "stop": stop,
    }
