"""Saying on stderr what a command waits for, once that takes more than a moment."""

from types import TracebackType
from typing import Final

import click
import trio

from ottla.client.task_scope import TaskScope
from ottla.client.waits import Waits

SHOWN_AFTER_S: Final = 1.0
_LOOK_S: Final = 0.25
_AGAIN_S: Final = 10.0
"""The same text is shown no more often than this."""


class ShownWaits:
    """Shows what is waited for, for the length of an ``async with`` block.

    Args:
        waits: What to show.
    """

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._scope = TaskScope()
        self._shown: dict[str, float] = {}

    async def __aenter__(self) -> None:
        self._nursery = await self._scope.open()
        self._nursery.start_soon(self._show)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._scope.close(self._nursery, kind, error, trace)

    async def _show(self) -> None:
        while True:
            await trio.sleep(_LOOK_S)
            now = trio.current_time()
            for text in self._waits.longer_than(SHOWN_AFTER_S):
                if now - self._shown.get(text, -_AGAIN_S) >= _AGAIN_S:
                    self._shown[text] = now
                    click.echo(f"Waiting for {text}", err=True)
