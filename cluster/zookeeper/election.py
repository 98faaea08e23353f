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

    If cancelled, this session can be controller without knowing; the session's end resolves that, and so does its next
    election, which finds that `/controller` is its own.

    Args:
        zookeeper: The session that will own `/controller`.
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

    The epoch only changes together with the creation of `/controller`, so while our `/controller` exists, the epoch is
    ours. The pair is safe because ownership of the node is checked after the epoch was read.
    """
    try:
        data, epoch_stat = await zookeeper.get(ControllerEpochZnode.PATH)
    except NoNodeError:
        return None
    stat = await zookeeper.exists(ControllerZnode.PATH)
    if stat is None or stat.ephemeral_owner != zookeeper.session_id:
        return None
    return ControllerFence(ControllerEpochZnode.decode(data), epoch_stat.version)
