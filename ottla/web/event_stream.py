"""Server-sent events: an answer that goes on until the browser leaves."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

SILENCE_S: Final = 15.0
"""After this long without an event a comment is sent, so that no proxy between closes the connection as idle."""


class EventStream(Response):
    """Sends the events that a function sends.

    Args:
        produce: Sends each event, with its name and data, by the function that it is called with; returns when there
            are no more.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Callable[[Callable[[str, str], Awaitable[None]]], Awaitable[None]]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._produce = produce

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more, or the browser has left."""
        del scope
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        lock = trio.Lock()

        async def send_text(text: str) -> None:
            async with lock:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        async def send_event(name: str, data: str) -> None:
            lines = "".join(f"data: {line}\n" for line in data.splitlines())
            await send_text(f"event: {name}\n{lines}\n")

        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                nursery.cancel_scope.cancel()

            async def keep_alive() -> None:
                while True:
                    await trio.sleep(SILENCE_S)
                    await send_text(":\n\n")

            nursery.start_soon(leave)
            nursery.start_soon(keep_alive)
            await self._produce(send_event)
            nursery.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})
