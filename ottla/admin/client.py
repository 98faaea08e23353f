"""The admin client itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ottla.addresses import parse_addresses
from ottla.admin.configs import ConfigsAdmin
from ottla.admin.groups import GroupsAdmin
from ottla.admin.logs import LogsAdmin
from ottla.admin.moves import MovesAdmin
from ottla.admin.replicas import ReplicasAdmin
from ottla.admin.topics import TopicsAdmin

REQUEST_TIMEOUT_S: Final = 30.0


class Admin(TopicsAdmin, ConfigsAdmin, MovesAdmin, LogsAdmin, ReplicasAdmin, GroupsAdmin):
    """Asks a cluster about its topics, brokers, logs and groups, and changes them. Made by `open_admin`.

    Each call raises `ApiError` where the cluster refuses, `ConnectError` where it cannot be reached in time,
    and `NoCommonVersionError` where the broker does not serve what is asked.
    """


@asynccontextmanager
async def open_admin(
    bootstrap_servers: str, *, client_id: str = "ottla-admin", timeout_s: float = REQUEST_TIMEOUT_S
) -> AsyncIterator[Admin]:
    """Connect to a cluster by some of its brokers.

    Args:
        bootstrap_servers: ``host:port,host:port``; any that answers will do.
        client_id: What the brokers see us as.
        timeout_s: How long each call may take, its retries included.

    Raises:
        ValueError: the servers are not written as ``host:port``.
        BootstrapError: none of them answers.
    """
    admin = Admin(parse_addresses(bootstrap_servers), client_id, timeout_s)
    try:
        await admin.refresh()
        yield admin
    finally:
        await admin.close()
