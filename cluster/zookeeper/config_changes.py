"""Following `/config/changes`: each notification names a configuration that every broker then reads."""

import logging
from collections.abc import Awaitable, Callable

import trio

from cluster.zookeeper.client import ANY_VERSION, ConnectionLossError, NoNodeError, WatchEvent, ZooKeeper
from cluster.zookeeper.reader import ZnodeReader
from cluster.zookeeper.znodes import ConfigChangeZnode, MalformedZnodeError
from wire.types import WallMs

logger = logging.getLogger(__name__)

EXPIRY_MS = 15 * 60 * 1000
"""How old a notification gets before whichever broker looks next deletes it."""


class ConfigChanges:
    """The notifications that were not dealt with yet, in order.

    A broker reads all configurations after `mark_read`, and then deals with what `follow` tells.
    """

    def __init__(self, zookeeper: ZooKeeper, wall_ms: Callable[[], WallMs]) -> None:
        self._zookeeper = zookeeper
        self._reader = ZnodeReader(zookeeper)
        self._wall_ms = wall_ms
        self._last_name = ""

    async def mark_read(self) -> None:
        """Take all notifications there are as dealt with: the caller reads every configuration after this."""
        names = await self._reader.read_children(ConfigChangeZnode.PARENT)
        self._last_name = max(names, default="")

    async def follow(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Tell each change, for ever, across reconnections and expiries; runs until it is cancelled.

        Args:
            on_change: Called with the entity path (`topics/<t>`, `brokers/<id>`, ...), one at a time. A
                change is told once for each notification, which may be more often than it happened.

        Raises:
            SessionExpiredError: the session expired: call it again when it is renewed; nothing is lost.
        """
        while True:
            changed = trio.Event()

            def look_again(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            names = await self._reader.read_children(ConfigChangeZnode.PARENT, look_again)
            for name in names:
                # Names differ in their ten digits only, so their order is that of creation.
                if name > self._last_name:
                    await self._tell(name, on_change)
                    self._last_name = name
            await self._purge(names)
            await changed.wait()

    async def _tell(self, name: str, on_change: Callable[[str], Awaitable[None]]) -> None:
        try:
            data, _ = await self._zookeeper.get(ConfigChangeZnode.path(name))
            entity_path = ConfigChangeZnode.decode(data)
        except NoNodeError:
            return
        except MalformedZnodeError:
            logger.exception("%s is skipped", name)
            return
        await on_change(entity_path)

    async def _purge(self, names: list[str]) -> None:
        """Delete what is older than any broker can still be about to read."""
        paths = [ConfigChangeZnode.path(name) for name in names]
        now = self._wall_ms()
        for path, node in zip(paths, await self._zookeeper.get_many(paths), strict=True):
            if node is None or now - node[1].modified_ms < EXPIRY_MS:
                continue
            try:
                await self._zookeeper.delete(path, ANY_VERSION)
            except (NoNodeError, ConnectionLossError):
                continue
