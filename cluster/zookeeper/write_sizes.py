"""How large a write may be: ZooKeeper closes the connection of a client that sends more, without an answer.

The limit is the servers' `jute.maxbuffer`. A writer that does not know it repeats for ever a write whose outcome it
believes to be unknown, and each time the other requests of its session fail, too.
"""

from collections.abc import Iterable
from typing import Final

from cluster.zookeeper.client import Create, Operation, OversizedWriteError, SetData

DEFAULT_WRITE_BYTES_MAX: Final = 1_048_575
"""The bytes that a ZooKeeper server accepts if `jute.maxbuffer` is not set."""
_OPERATION_BYTES: Final = 100
"""Bytes to add to the path and the data of an operation for headers, lengths, version and ACL; more than they need."""


def check_write_size(operations: Iterable[Operation], bytes_max: int) -> None:
    """Refuse a request that ZooKeeper would not accept.

    Args:
        operations: The operations of one request.
        bytes_max: The largest request, in bytes.

    Raises:
        OversizedWriteError: it is larger; nothing was sent.
    """
    size, largest, largest_path = 0, -1, ""
    for operation in operations:
        data = operation.data if isinstance(operation, Create | SetData) else None
        own = _OPERATION_BYTES + len(operation.path.encode()) + len(data or b"")
        size += own
        if own > largest:
            largest, largest_path = own, operation.path
    if size > bytes_max:
        raise OversizedWriteError(
            f"a write of {size} bytes to {largest_path} is more than the {bytes_max} that ZooKeeper takes "
            "(jute.maxbuffer of its servers, ottla.zookeeper.write.max.bytes of the brokers)"
        )
