"""What can be asked of a broker on its management socket: itself, and what happens to it while a caller listens."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import trio

from cluster.broker.loop_monitor import LoopMonitor
from cluster.broker.state_changes import StateChanges
from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.management import ManagementError, Method


class ManagedBroker(Protocol):
    """What is needed of the broker; `Broker` has it."""

    metrics: BrokerMetrics
    changes: StateChanges
    ready: trio.Event
    loop_monitor: LoopMonitor | None

    def describe(self, *, partitions: bool = True) -> dict[str, Any]:
        """Describe the broker: a fresh value of plain types."""
        ...

    def describe_partitions(self) -> list[dict[str, Any]]:
        """Describe the replicas that it hosts."""
        ...

    def stop(self) -> None:
        """Have it leave in good order."""
        ...


def management_methods(broker: ManagedBroker) -> dict[str, Method]:
    """Return what can be asked of a broker, by name.

    `describe` returns everything at once; `partitions` only the replicas it hosts; `metrics` the counters and
    gauges; `longest_turn` how long the loop stood still at most since this was last asked; `wait_ready`
    answers when the broker serves, or after `timeout_ms` with whether it does;
    `changes` streams what happens; `stop` has it leave in good order.
    """

    async def describe(params: Mapping[str, Any]) -> object:
        return broker.describe(partitions=bool(params.get("partitions", True)))

    async def partitions(_: Mapping[str, Any]) -> object:
        return broker.describe_partitions()

    async def metrics(_: Mapping[str, Any]) -> object:
        return broker.metrics.registry.values()

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
