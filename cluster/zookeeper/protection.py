"""How each znode is protected if ``zookeeper.set.acl`` is on: as in Kafka, so that both kinds of broker agree."""

from enum import Enum
from typing import Final


class Protection(Enum):
    """The protection of a znode, in a cluster that protects its znodes."""

    OPEN = "open"  # everyone may do everything
    READABLE = "readable"  # the creator may do everything, everyone may read
    SECRET = "secret"  # only the creator may do anything


OPEN_PATH: Final = "/consumers"
"""Old consumers write below it themselves."""
SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Paths with secrets below them."""
ROOTS: Final = (
    *("/admin", "/brokers", "/cluster", "/config", "/controller", "/controller_epoch"),
    *("/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification"),
    *("/delegation_token", "/kafka-acl-extended", "/migration", "/feature"),
    *("/kafka-acl", "/kafka-acl-changes", "/kafka-acl-extended-changes"),
)
"""The paths that a migration protects, with everything below them."""

REQUIRED_ROOTS: Final = ("/brokers", "/cluster", "/config", "/controller_epoch")
"""Znodes of every cluster that a broker has ever joined."""


def protection_of(path: str) -> Protection:
    """Return how a znode is protected, by its path below the chroot."""
    if path == OPEN_PATH:
        return Protection.OPEN
    return Protection.SECRET if path.startswith(SECRET_PATHS) else Protection.READABLE
