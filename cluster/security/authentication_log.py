"""Log lines of failed authentications, in logger ``ottla.audit``: bounded, so that strangers cannot fill a disk."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

audit = logging.getLogger("ottla.audit")

LINES_PER_ADDRESS_S: Final = 1.0
"""An address gets at most one line in this time; the next line says how many were left out."""
ADDRESSES_MAX: Final = 4096


class AuthenticationLog:
    """Logs failed authentications.

    Args:
        monotonic: Seconds on a clock that never goes back.
    """

    __slots__ = ("_monotonic", "_seen")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def failed(self, address: str, listener: str, mechanism: str, user: str, reason: str) -> None:
        """Log a failure, unless this address had a line within the interval.

        Args:
            address: The peer's address, without its port.
            listener: Where it came in.
            mechanism: The SASL mechanism, or ``TLS``; empty where none was chosen.
            user: The user name that the peer claimed; untrusted, so it is quoted.
            reason: Why authentication failed; without secrets.
        """
        now = self._monotonic()
        last, left_out = self._seen.pop(address, (-LINES_PER_ADDRESS_S, 0))
        if now - last < LINES_PER_ADDRESS_S:
            self._seen[address] = (last, left_out + 1)
            return
        self._seen[address] = (now, 0)
        if len(self._seen) > ADDRESSES_MAX:
            self._seen.popitem(last=False)
        audit.info(
            "authentication failed: address=%s listener=%s mechanism=%s user=%r reason=%r%s",
            address,
            listener,
            mechanism or "-",
            user,
            reason,
            f" left_out={left_out}" if left_out else "",
        )
