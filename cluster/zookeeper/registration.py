"""Registers a broker: its ephemeral node, whose czxid is the broker epoch, in a session that is certainly ours.

A broker that was killed leaves its node to its former session. That node must not be deleted: it belongs either to our
own former process, whose session `session_record` has closed by now, or to a live broker that has our id by an
operator's mistake. So we wait for it to vanish, for as long as its session can last, and then fail.
"""

import logging

import trio

from cluster.zookeeper.client import (
    INITIAL_VERSION,
    BadVersionError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    SetData,
    WatchEvent,
    ZooKeeper,
)
from cluster.zookeeper.znodes import BrokerIdZnode, BrokerRegistration
from wire.types import BrokerEpoch

logger = logging.getLogger(__name__)

_WAIT_IN_SESSION_TIMEOUTS = 2.0
"""How long a dead broker's node can outlast it: its session timeout, at most ours, and ZooKeeper's rounding up."""


class BrokerIdTakenError(Exception):
    """Another live broker has registered with this id."""


async def register(zookeeper: ZooKeeper, registration: BrokerRegistration) -> BrokerEpoch:
    """Open the session for use and create the broker's node in it; call it after recovery, with listeners bound.

    The node is created and then set, in one transaction, as Kafka does. If our session already owns the node, an
    earlier attempt succeeded: it is rewritten if it differs. If cancelled, it can leave the node behind.

    Args:
        zookeeper: A session, new or renewed.
        registration: Our registration.

    Returns:
        The broker epoch: the czxid of the node.

    Raises:
        BrokerIdTakenError: the node of another session did not vanish in time.
    """
    await zookeeper.renew_session()
    path = BrokerIdZnode.path(registration.broker_id)
    data = BrokerIdZnode.encode(registration)
    while True:
        try:
            result = await zookeeper.multi(
                [Create(path, ephemeral=True), SetData(path, data, INITIAL_VERSION)]
            )
        except ConnectionLossError:
            logger.warning("lost the connection while registering: reading whether the node was created")
        else:
            if result.ok:
                return BrokerEpoch(result.stat(1).czxid)
            if not isinstance(result.failure and result.failure[1], NodeExistsError):
                result.raise_failure()
        epoch = await _own_node(zookeeper, path, data)
        if epoch is not None:
            return epoch
        await _wait_vanished(zookeeper, path)


async def _own_node(zookeeper: ZooKeeper, path: str, data: bytes) -> BrokerEpoch | None:
    """Return the epoch of the node if this very session owns it; rewrite it if it differs."""
    while True:
        try:
            stored, stat = await zookeeper.get(path)
            if stat.ephemeral_owner != zookeeper.session_id:
                return None
            if stored != data:
                await zookeeper.set(path, data, stat.version)
            return BrokerEpoch(stat.czxid)
        except NoNodeError:
            return None
        except (BadVersionError, ConnectionLossError):
            continue


async def _wait_vanished(zookeeper: ZooKeeper, path: str) -> None:
    """Wait until another session's node is gone.

    Raises:
        BrokerIdTakenError: it still exists after the longest time that a dead broker's session can last.
    """
    patience_s = zookeeper.session_timeout_s * _WAIT_IN_SESSION_TIMEOUTS
    with trio.move_on_after(patience_s):
        while True:
            changed = trio.Event()

            def look_again(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            stat = await zookeeper.exists(path, look_again)
            if stat is None:
                return
            logger.warning(
                "%s belongs to session 0x%x: waiting up to %.0f s for it to end",
                path,
                stat.ephemeral_owner & 0xFFFFFFFFFFFFFFFF,
                patience_s,
            )
            await changed.wait()
    raise BrokerIdTakenError(f"{path} exists: another broker lives with this id")
