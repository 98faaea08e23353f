"""Process items with bounded concurrency."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

AT_ONCE: Final = 32
"""How many items are processed at a time: enough to keep ZooKeeper's pipeline full."""

_T = TypeVar("_T")


async def each_of(items: Sequence[_T], do: Callable[[_T], Awaitable[None]]) -> None:
    """Call ``do`` for each item, at most `AT_ONCE` at a time; return when all are done.

    An exception from one call cancels the others and is raised.
    """
    if len(items) == 1:
        await do(items[0])
        return
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await do(item)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(items))):
                nursery.start_soon(work)
    except BaseExceptionGroup as group:
        first = group.exceptions[0]
        if len(group.exceptions) == 1:
            raise first from None
        raise
