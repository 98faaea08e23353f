"""Waits for the first UpdateMetadata, or for one with a change that the controller was asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio

from cluster.handlers.context import HasController, HasMetadata, HasNursery

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.replication.metadata_cache import ClusterSnapshot, MetadataCache

FIRST_TOLD_TIMEOUT_MS: Final = 5_000
"""How long a client that connects while the broker starts waits for metadata."""
OTHERS_TOLD_TIMEOUT_MS: Final = 1_000
"""How long the answer to CreateTopics waits for brokers that do not know the topic yet."""


class Waiting(HasMetadata, HasNursery, Protocol):
    """A broker on which requests may wait for metadata."""


class Controlling(HasController, HasMetadata, Protocol):
    """A broker whose controller knows which brokers have answered it."""


WaitingT = TypeVar("WaitingT", bound=Waiting)


def once_told(call: "ApiCall[WaitingT]", begin: "Callable[[ApiCall[WaitingT]], None]") -> None:
    """Begin a request that asks about the cluster; before the first UpdateMetadata, wait for it.

    A broker listens before it is registered, and so before the controller's first UpdateMetadata. Until then it could
    only answer with a cluster without brokers, from which some clients do not recover for minutes.

    Args:
        call: The request.
        begin: Answers it. It is called in any case, even if no metadata came in time.
    """
    if call.broker.metadata.snapshot.brokers:
        begin(call)
    else:
        call.broker.nursery.start_soon(_begin_told, call, begin, name="waiting for metadata")


async def _begin_told(call: "ApiCall[WaitingT]", begin: "Callable[[ApiCall[WaitingT]], None]") -> None:
    await wait_told(call.broker.metadata, lambda snapshot: bool(snapshot.brokers), FIRST_TOLD_TIMEOUT_MS)
    begin(call)


async def wait_told(
    metadata: "MetadataCache", condition: "Callable[[ClusterSnapshot], bool]", timeout_ms: int
) -> bool:
    """Wait until the metadata meets a condition.

    Args:
        metadata: The metadata to wait on.
        condition: Whether a state of the cluster is the one waited for.
        timeout_ms: How long to wait; zero or less only looks.

    Returns:
        Whether the condition came true in time.
    """
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        while not condition(metadata.snapshot):
            await metadata.wait_changed()
    return condition(metadata.snapshot)


async def wait_all_told(
    broker: Controlling, condition: "Callable[[ClusterSnapshot], bool]", timeout_ms: int
) -> bool:
    """Wait for a change in the metadata of this broker, the controller's, and then of the others.

    A client may ask any broker next, and some clients keep the answer of a broker with old metadata for long. A broker
    that does not answer is not waited for beyond `OTHERS_TOLD_TIMEOUT_MS`.

    Args:
        broker: The controller's broker.
        condition: Whether a state of the cluster is the one waited for.
        timeout_ms: How long to wait; zero or less only looks.

    Returns:
        Whether the condition came true here in time.
    """
    began_at = trio.current_time()
    is_told = await wait_told(broker.metadata, condition, timeout_ms)
    if is_told:
        left_ms = timeout_ms - (trio.current_time() - began_at) * 1000
        with trio.move_on_after(max(min(left_ms, OTHERS_TOLD_TIMEOUT_MS), 0) / 1000):
            await broker.controller.wait_heard()
    return is_told
