"""Waiting until this broker has been told of a change that was asked of the controller."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import ClusterSnapshot, MetadataCache


async def wait_told(
    metadata: "MetadataCache", condition: "Callable[[ClusterSnapshot], bool]", timeout_ms: int
) -> bool:
    """Wait until the controller has told this broker something.

    Args:
        metadata: What it has told.
        condition: Whether a state of the cluster is the one waited for.
        timeout_ms: How long to wait; zero or less only looks.

    Returns:
        Whether the condition came true in time.
    """
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        while not condition(metadata.snapshot):
            await metadata.wait_changed()
    return condition(metadata.snapshot)
