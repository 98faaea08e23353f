"""Process items with bounded concurrency."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

AT_ONCE: Final = 32
"""How many are under way at a time: enough to keep ZooKeeper's pipeline full."""

_T = TypeVar("_T")


async def each_of(items: Sequence[_T], do: Callable[[_T], Awaitable[None]]) -> None:
    """Do something for each item, many at a time; returns when all are done.

    What one raises cancels the others and is raised.
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
