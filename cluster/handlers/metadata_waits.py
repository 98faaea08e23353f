"""Waiting for the first UpdateMetadata, or for one with a change that was asked of the controller."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio

from cluster.handlers.context import HasController, HasMetadata, HasNursery

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.replication.metadata_cache import ClusterSnapshot, MetadataCache

FIRST_TOLD_TIMEOUT_MS: Final = 5_000
"""How long a client that comes while the broker starts may wait for metadata."""
OTHERS_TOLD_TIMEOUT_MS: Final = 1_000
"""How long the answer to CreateTopics waits for brokers that do not know the topic yet."""


class Waiting(HasMetadata, HasNursery, Protocol):
    """A broker on which requests may wait for metadata."""


class Controlling(HasController, HasMetadata, Protocol):
    """A broker whose controller knows which brokers have answered it."""


WaitingT = TypeVar("WaitingT", bound=Waiting)


def once_told(call: "ApiCall[WaitingT]", begin: "Callable[[ApiCall[WaitingT]], None]") -> None:
    """Begin a request that asks about the cluster; before the first UpdateMetadata, wait for it.

    A broker listens before it is registered, and so before the controller's first UpdateMetadata. A cluster without
    brokers, which would be all that it knows, is an answer that some clients do not recover from for minutes.

    Args:
        call: The request.
        begin: Answers it. It is called in any case, if need be without anything to tell.
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
    """Wait until UpdateMetadata has brought something.

    Args:
        metadata: What it has brought.
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
    """Wait for a change in this broker's metadata, which is the controller's, and then in the others'.

    A client asks any broker next, and some of them believe for long what a broker with old metadata answers. A
    broker that does not answer is not waited for beyond `OTHERS_TOLD_TIMEOUT_MS`.

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
