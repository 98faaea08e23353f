"""A client of ZooKeeper that ends with the block that uses it, however that ends.

One that is left behind connects for ever, and draws from the process's `random` while it does: Hypothesis then
refuses the examples of tests that have nothing to do with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

_CONNECT_TIMEOUT_S = 60.0


@contextmanager
def zookeeper_client(made: KazooClient | str) -> Iterator[KazooClient]:
    """Connect to ZooKeeper; close the session at the block's end.

    Args:
        made: The client, which is not started yet, or the servers of one that wants nothing special.
    """
    client = KazooClient(made) if isinstance(made, str) else made
    client.start(timeout=_CONNECT_TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()
