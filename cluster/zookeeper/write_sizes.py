"""How large a write may be: ZooKeeper closes the connection of a client that sends more, without an answer.

The limit is the servers' `jute.maxbuffer`. A writer that does not know it repeats a write whose outcome it believes
to be unknown, for ever, and every other request of its session is cut off each time.
"""

from collections.abc import Iterable
from typing import Final

from cluster.zookeeper.client import Create, Operation, OversizedWriteError, SetData

DEFAULT_WRITE_BYTES_MAX: Final = 1_048_575
"""What a ZooKeeper server takes where `jute.maxbuffer` is not set."""
_OPERATION_BYTES: Final = 100
"""More than what stands around the path and the data of an operation: headers, lengths, version, ACL."""


def check_write_size(operations: Iterable[Operation], bytes_max: int) -> None:
    """Refuse a request that ZooKeeper would not take.

    Args:
        operations: What is sent as one request.
        bytes_max: The largest request.

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
