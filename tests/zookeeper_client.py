"""A ZooKeeper client that is closed at the end of its block, however the block ends.

A client that is left open tries to connect for ever, and draws from the process's `random` meanwhile: Hypothesis then
refuses the examples of unrelated tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

_CONNECT_TIMEOUT_S = 60.0


@contextmanager
def zookeeper_client(made: KazooClient | str) -> Iterator[KazooClient]:
    """Connect to ZooKeeper; close the session at the block's end.

    Args:
        made: A client that is not started yet, or the servers for a default one.
    """
    client = KazooClient(made) if isinstance(made, str) else made
    client.start(timeout=_CONNECT_TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()
