"""Which connections are cut off: those that idle, those that send a request too slowly, those that never
read.

The connections count what they do without reading a clock; a look at all of them, once per `interval_s`, sees from the
counts what has moved. The times are therefore exact to one `interval_s`.
"""

import math
from typing import Final, Protocol

LOOKS_PER_LIMIT: Final = 4
INTERVAL_MAX_S: Final = 15.0


class Watched(Protocol):
    """What `SlowPeers` knows of a connection, and the notes that it keeps there."""

    idle_since: float
    noted_received: int
    noted_sent: int
    noted_frames: int
    frame_since: float
    frame_from: int

    unauthenticated_since: float | None

    @property
    def received_bytes(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def frames_begun(self) -> int: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def is_inside_frame(self) -> bool: ...
    @property
    def is_sending(self) -> bool: ...
    @property
    def waits_for_room(self) -> bool: ...


class SlowPeers:
    """Judges connections.

    Args:
        idle_close_s: Seconds after which a connection that asks nothing, and waits for nothing, is closed;
            zero or less means never.
        slow_frame_s: How long a request may take to arrive before its rate is checked.
        slow_rate_min: The rate, in bytes a second, that a request must keep then.
        unread_s: How long a peer may read nothing of what it asked for.
        authentication_s: How long a peer may take to pass TLS and SASL.
    """

    __slots__ = (
        "_authentication_s",
        "_idle_close_s",
        "_slow_frame_s",
        "_slow_rate_min",
        "_unread_s",
        "interval_s",
    )

    def __init__(
        self,
        *,
        idle_close_s: float,
        slow_frame_s: float,
        slow_rate_min: int,
        unread_s: float,
        authentication_s: float = 30.0,
    ) -> None:
        self._authentication_s = authentication_s
        self._idle_close_s = idle_close_s if idle_close_s > 0 else math.inf
        self._slow_frame_s = slow_frame_s
        self._slow_rate_min = slow_rate_min
        self._unread_s = unread_s
        shortest = min(self._idle_close_s, slow_frame_s, unread_s, authentication_s)
        self.interval_s = min(INTERVAL_MAX_S, shortest / LOOKS_PER_LIMIT)

    def judge(self, connection: Watched, now: float) -> str | None:
        """Return why a connection is to be cut off, or None.

        Args:
            connection: The connection; the notes on it are brought up to date.
            now: Monotonic seconds.
        """
        moved_in = connection.received_bytes != connection.noted_received
        moved_out = connection.sent_bytes != connection.noted_sent
        connection.noted_received = connection.received_bytes
        connection.noted_sent = connection.sent_bytes
        if moved_in or moved_out:
            connection.idle_since = now
        idle_s = now - connection.idle_since
        since = connection.unauthenticated_since
        if since is not None and now - since >= self._authentication_s:
            return f"it has not authenticated within {now - since:.0f} s"
        if connection.is_sending:
            if idle_s >= self._unread_s:
                return f"it took nothing of its answers for {idle_s:.0f} s"
            return None
        if connection.is_inside_frame and not connection.waits_for_room:
            return self._judge_frame(connection, now)
        connection.noted_frames = -1
        if connection.pending_count or connection.waits_for_room:
            return None
        if idle_s >= self._idle_close_s:
            return f"idle for {idle_s:.0f} s"
        return None

    def _judge_frame(self, connection: Watched, now: float) -> str | None:
        """Return why a connection with a part of a request is to be cut off, or None if the rest comes fast enough."""
        if connection.noted_frames != connection.frames_begun:
            connection.noted_frames = connection.frames_begun
            connection.frame_since = now
            connection.frame_from = connection.received_bytes
            return None
        taken_s = now - connection.frame_since
        came = connection.received_bytes - connection.frame_from
        if taken_s < self._slow_frame_s or came >= taken_s * self._slow_rate_min:
            return None
        return f"a request is not complete after {taken_s:.0f} s, at {came / taken_s:.0f} bytes a second"
