"""Becoming controller: one transaction creates `/controller` and raises `/controller_epoch`."""

import logging

from cluster.zookeeper.client import (
    ConnectionLossError,
    Create,
    NodeExistsError,
    NoNodeError,
    SetData,
    ZooKeeper,
)
from cluster.zookeeper.fence import ControllerFence, ControllerMovedError
from cluster.zookeeper.znodes import ControllerEpochZnode, ControllerZnode
from wire.types import BrokerId, ControllerEpoch, WallMs, ZkVersion

logger = logging.getLogger(__name__)


async def elect(zookeeper: ZooKeeper, broker_id: BrokerId, now: WallMs) -> ControllerFence:
    """Try to become controller.

    Cancelled, it may leave this session controller without knowing; the session's end resolves that, and so
    does the next election of this session, which finds `/controller` its own.

    Args:
        zookeeper: The session that shall own `/controller`.
        broker_id: Ours.
        now: For the timestamp in `/controller`.

    Returns:
        The fence that our writes carry from now on.

    Raises:
        ControllerMovedError: another broker is controller, or was faster.
    """
    while True:
        epoch, version = await _read_epoch(zookeeper)
        elected = ControllerEpoch(epoch + 1)
        try:
            result = await zookeeper.multi(
                [
                    Create(ControllerZnode.PATH, ControllerZnode.encode(broker_id, now), ephemeral=True),
                    SetData(ControllerEpochZnode.PATH, ControllerEpochZnode.encode(elected), version),
                ]
            )
        except ConnectionLossError:
            logger.warning("the connection went while electing epoch %d: looking who won", elected)
        else:
            if result.ok:
                return ControllerFence(elected, result.stat(1).version)
        fence = await _own_fence(zookeeper)
        if fence is not None:
            return fence
        if await zookeeper.exists(ControllerZnode.PATH) is not None:
            raise ControllerMovedError(f"another broker won, not broker {broker_id}")


async def _read_epoch(zookeeper: ZooKeeper) -> tuple[ControllerEpoch, ZkVersion]:
    """Read the epoch of the last controller, creating the node for the first."""
    while True:
        try:
            data, stat = await zookeeper.get(ControllerEpochZnode.PATH)
            return ControllerEpochZnode.decode(data), stat.version
        except NoNodeError:
            pass
        try:
            await zookeeper.create(
                ControllerEpochZnode.PATH, ControllerEpochZnode.encode(ControllerEpochZnode.INITIAL)
            )
        except (NodeExistsError, ConnectionLossError):
            continue


async def _own_fence(zookeeper: ZooKeeper) -> ControllerFence | None:
    """Return our fence if `/controller` belongs to this very session: then the epoch was last raised by us.

    The epoch only changes together with the creation of `/controller`, so while ours exists it is ours. That
    the node was ours after the epoch was read is what makes the pair safe.
    """
    try:
        data, epoch_stat = await zookeeper.get(ControllerEpochZnode.PATH)
    except NoNodeError:
        return None
    stat = await zookeeper.exists(ControllerZnode.PATH)
    if stat is None or stat.ephemeral_owner != zookeeper.session_id:
        return None
    return ControllerFence(ControllerEpochZnode.decode(data), epoch_stat.version)
