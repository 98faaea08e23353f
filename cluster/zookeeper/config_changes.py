"""Follows `/config/changes`: each notification names a configuration that every broker then reads."""

import logging
from collections.abc import Awaitable, Callable

from cluster.zookeeper.change_notifications import ChangeNotifications
from cluster.zookeeper.client import ZooKeeper
from cluster.zookeeper.znodes import ConfigChangeZnode, MalformedZnodeError
from wire.types import WallMs

logger = logging.getLogger(__name__)


class ConfigChanges:
    """The notifications that have not been handled yet, in order.

    A broker reads all configurations after `mark_read`, and then handles what `follow` reports.
    """

    def __init__(self, zookeeper: ZooKeeper, wall_ms: Callable[[], WallMs]) -> None:
        self._notifications = ChangeNotifications(zookeeper, wall_ms, ConfigChangeZnode.PARENT)

    async def mark_read(self) -> None:
        """Mark all present notifications as handled: the caller reads every configuration after this."""
        await self._notifications.mark_read()

    async def follow(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Report each change, across reconnections; runs until it is cancelled.

        Args:
            on_change: Called with the entity path (`topics/<t>`, `brokers/<id>`, ...), one at a time. A
                change is reported once for each notification, which may be more often than it happened.

        Raises:
            SessionExpiredError: the session expired: call it again when it is renewed; nothing is lost.
        """

        async def changed(path: str, data: bytes) -> None:
            try:
                entity_path = ConfigChangeZnode.decode(data)
            except MalformedZnodeError:
                logger.exception("%s is skipped", path)
                return
            await on_change(entity_path)

        await self._notifications.follow(changed)
