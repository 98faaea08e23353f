"""The methods of a broker's management socket: descriptions, and a stream of its state changes."""

import math
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, Protocol

import trio

from cluster.broker.loop_monitor import LoopMonitor
from cluster.broker.state_changes import StateChanges
from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.management import ManagementError, Method

PARTITIONS_PER_TURN: Final = 200
"""How many replicas are described before the loop turns."""


class ManagedBroker(Protocol):
    """The parts of a broker that the socket needs; `Broker` has them."""

    metrics: BrokerMetrics
    changes: StateChanges
    ready: trio.Event
    loop_monitor: LoopMonitor | None

    def describe(self) -> dict[str, Any]:
        """Describe the broker without its replicas: a fresh value of plain types."""
        ...

    def partition_descriptions(self) -> Iterator[dict[str, Any]]:
        """Describe the replicas that it hosts, one by one; other tasks can run in between."""
        ...

    def stop(self) -> None:
        """Stop it in good order."""
        ...


def management_methods(broker: ManagedBroker) -> dict[str, Method]:
    """Return the methods of the management socket, by name.

    `describe` returns everything at once; `partitions` only the replicas it hosts; `metrics` the counters and
    gauges; `longest_turn` the loop's longest turn since this was last asked; `wait_ready`
    answers when the broker serves, or after `timeout_ms` with whether it does;
    `changes` streams what happens; `stop` stops it in good order.
    """

    async def describe(params: Mapping[str, Any]) -> object:
        described = broker.describe()
        if params.get("partitions", True):
            described["partitions"] = await partitions(params)
        return described

    async def partitions(_: Mapping[str, Any]) -> object:
        found: list[dict[str, Any]] = []
        for each in broker.partition_descriptions():
            found.append(each)
            if len(found) % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        return found

    async def metrics(_: Mapping[str, Any]) -> object:
        found: dict[str, float] = {}
        for some in broker.metrics.registry.value_groups():
            found.update(some)
            await trio.lowlevel.checkpoint()
        return found

    async def longest_turn(_: Mapping[str, Any]) -> object:
        monitor = broker.loop_monitor
        if monitor is None:
            raise ManagementError("the loop is not watched")
        seconds, task = monitor.take_longest()
        return {"ms": seconds * 1000, "task": task}

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
        "longest_turn": longest_turn,
        "wait_ready": wait_ready,
        "changes": changes,
        "stop": stop,
    }
