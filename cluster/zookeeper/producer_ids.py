"""Taking the next block of producer ids: a compare-and-set on one znode that all brokers share."""

from cluster.zookeeper.client import (
    INITIAL_VERSION,
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    ZooKeeper,
)
from cluster.zookeeper.znodes import ProducerIdBlock, ProducerIdBlockZnode
from wire.types import BrokerId, ProducerId


class ProducerIdsExhaustedError(Exception):
    """Every producer id has been handed out."""


async def next_producer_id_block(zookeeper: ZooKeeper, broker_id: BrokerId) -> ProducerIdBlock:
    """Take a block of ids that no other broker gets.

    A block whose write has an unknown outcome is not used: the next read skips it, and a thousand of 2**63 ids are
    lost. Cancellation can lose a block in the same way.

    Args:
        zookeeper: The session.
        broker_id: The broker that takes it.

    Raises:
        ProducerIdsExhaustedError: there are none left.
        MalformedZnodeError: the znode is malformed.
    """
    path = ProducerIdBlockZnode.PATH
    while True:
        try:
            data, stat = await zookeeper.get(path)
        except NoNodeError:
            data, stat = b"", None
        latest = ProducerIdBlockZnode.decode(data)
        first = 0 if latest is None else latest.last + 1
        last = first + ProducerIdBlockZnode.BLOCK_SIZE - 1
        if last > ProducerIdBlockZnode.LAST_ID:
            raise ProducerIdsExhaustedError(f"producer ids end at {ProducerIdBlockZnode.LAST_ID}")
        block = ProducerIdBlock(broker_id, ProducerId(first), ProducerId(last))
        try:
            if stat is None:
                await zookeeper.create(path)
            version = INITIAL_VERSION if stat is None else stat.version
            await zookeeper.set(path, ProducerIdBlockZnode.encode(block), version)
        except (BadVersionError, NodeExistsError, NoNodeError, ConnectionLossError):
            continue
        return block
