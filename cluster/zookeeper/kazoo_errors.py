"""Translates kazoo's exceptions into ours, in this one place."""

from typing import Final

from kazoo import exceptions as kazoo

from cluster.zookeeper.client import (
    BadVersionError,
    ConnectionLossError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    SessionExpiredError,
    ZooKeeperError,
)

_TRANSLATIONS: Final[dict[type[BaseException], type[ZooKeeperError]]] = {
    kazoo.NoNodeError: NoNodeError,
    kazoo.NodeExistsError: NodeExistsError,
    kazoo.BadVersionError: BadVersionError,
    kazoo.NotEmptyError: NotEmptyError,
    kazoo.NoChildrenForEphemeralsError: NoChildrenForEphemeralsError,
    kazoo.NoAuthError: NoAuthError,
    kazoo.AuthFailedError: NoAuthError,
    kazoo.InvalidACLError: NoAuthError,
    # The session has moved to another server: the request may have been done.
    kazoo.SessionMovedError: ConnectionLossError,
    kazoo.ConnectionLoss: ConnectionLossError,
    kazoo.OperationTimeoutError: ConnectionLossError,
    kazoo.SessionExpiredError: SessionExpiredError,
    kazoo.ConnectionClosedError: SessionExpiredError,
    kazoo.RolledBackError: RolledBackError,
    kazoo.RuntimeInconsistency: RolledBackError,
}


def translate(error: BaseException) -> ZooKeeperError:
    """Return our error for the exception with which kazoo ended a request."""
    if isinstance(error, ZooKeeperError):
        return error
    translated = _TRANSLATIONS.get(type(error), ZooKeeperError)
    return translated(f"{type(error).__name__}: {error}")
