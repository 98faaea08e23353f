"""Waiting, on either loop, for what a cluster or another client brings about."""

from collections.abc import Callable

import anyio


async def eventually(condition: Callable[[], object]) -> None:
    """Poll until a condition holds; fail if it does not within a minute."""
    with anyio.fail_after(60):
        while True:
            if condition():
                return
            await anyio.sleep(0.01)
