"""How each znode is protected where ``zookeeper.set.acl`` is on: as in Kafka, so that both kinds of broker agree."""

from enum import Enum
from typing import Final


class Protection(Enum):
    """Who may do what with a znode of a cluster that protects its znodes."""

    OPEN = "open"  # everybody everything
    READABLE = "readable"  # the creator everything, everybody may read
    SECRET = "secret"  # the creator alone


OPEN_PATH: Final = "/consumers"
"""Consumers of old write below it by themselves."""
SECRET_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Paths below which secrets are."""
ROOTS: Final = (
    *("/admin", "/brokers", "/cluster", "/config", "/controller", "/controller_epoch"),
    *("/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification"),
    *("/delegation_token", "/kafka-acl-extended", "/migration", "/feature"),
    *("/kafka-acl", "/kafka-acl-changes", "/kafka-acl-extended-changes"),
)
"""The paths that a migration protects, with everything below them."""

REQUIRED_ROOTS: Final = ("/brokers", "/cluster", "/config", "/controller_epoch")
"""What every cluster has that a broker has ever joined."""


def protection_of(path: str) -> Protection:
    """Return how a znode is protected, by its path below the chroot."""
    if path == OPEN_PATH:
        return Protection.OPEN
    return Protection.SECRET if path.startswith(SECRET_PATHS) else Protection.READABLE
