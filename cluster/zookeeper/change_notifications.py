"""Follows a parent of sequential notification nodes: each child names something that every broker must read again."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from cluster.zookeeper.client import ANY_VERSION, ConnectionLossError, NoNodeError, WatchEvent, ZooKeeper
from cluster.zookeeper.reader import ZnodeReader
from wire.types import WallMs

EXPIRY_MS: Final = 15 * 60 * 1000
"""The age at which the next broker that looks deletes a notification."""


class ChangeNotifications:
    """The notifications below one path that have not been handled yet, in order.

    A broker reads everything after `mark_read`, and then handles what `follow` reports.

    Args:
        zookeeper: The session.
        wall_ms: The wall clock, for the age of notifications.
        parent: The path above the notifications.
    """

    def __init__(self, zookeeper: ZooKeeper, wall_ms: Callable[[], WallMs], parent: str) -> None:
        self._zookeeper = zookeeper
        self._reader = ZnodeReader(zookeeper)
        self._wall_ms = wall_ms
        self._parent = parent
        self._last_name = ""

    async def mark_read(self) -> None:
        """Mark all present notifications as handled: the caller reads everything after this."""
        self._last_name = max(await self._reader.read_children(self._parent), default="")

    async def follow(self, on_change: Callable[[str, bytes], Awaitable[None]]) -> None:
        """Report each change, across reconnections; runs until it is cancelled.

        Args:
            on_change: Called with a notification's path and data, one at a time, and at least once for each.

        Raises:
            SessionExpiredError: the session expired: call it again when it is renewed; nothing is lost.
        """
        while True:
            changed = trio.Event()

            def look_again(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            names = await self._reader.read_children(self._parent, look_again)
            for name in names:
                # Names differ only in their ten digits, so their order is that of creation.
                if name > self._last_name:
                    path = f"{self._parent}/{name}"
                    found = await self._reader.read_node(path)
                    if found is not None:
                        await on_change(path, found[0])
                    self._last_name = name
            await self._purge(names)
            await changed.wait()

    async def _purge(self, names: list[str]) -> None:
        """Delete notifications so old that no broker can still be about to read them."""
        paths = [f"{self._parent}/{name}" for name in names]
        now = self._wall_ms()
        for path, node in zip(paths, await self._zookeeper.get_many(paths), strict=True):
            if node is None or now - node[1].modified_ms < EXPIRY_MS:
                continue
            try:
                await self._zookeeper.delete(path, ANY_VERSION)
            except (NoNodeError, ConnectionLossError):
                continue
