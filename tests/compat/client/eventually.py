"""Waiting on trio for what a cluster or another client brings about."""

from collections.abc import Callable

import trio


async def eventually(condition: Callable[[], object]) -> None:
    """Look until a condition holds; fail if it does not within a minute."""
    with trio.fail_after(60):
        while True:
            if condition():
                return
            await trio.sleep(0.01)
