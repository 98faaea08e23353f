"""Free ports for a cluster under test: consecutive ones that nothing listens on at this moment."""

import os
import socket


def free_port_block(count: int) -> int:
    """Return the first of ``count`` consecutive free ports of 127.0.0.1.

    Raises:
        OSError: there is no such block.
    """
    # Below the range that the kernel draws outgoing ports from, and at a different place for each calling process.
    first = 12_000 + (os.getpid() * 16) % 16_000
    for start in range(first, first + 4_000, count):
        if all(_is_free(port) for port in range(start, start + count)):
            return start
    raise OSError(f"no {count} free ports in a row from {first} on")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
