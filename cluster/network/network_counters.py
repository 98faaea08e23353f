"""What the connections of one broker count as they go: plain additions, read by the metrics when asked."""


class NetworkCounters:
    """Totals since the broker's start.

    Attributes:
        received_bytes: Bytes received from peers.
        sent_bytes: Bytes that sockets took.
        requests: Requests begun.
        accepted: Connections accepted.
        rejected: Connections closed at once, over a limit.
        cut_off: Connections closed for idleness or for being slow.
    """

    __slots__ = ("accepted", "cut_off", "received_bytes", "rejected", "requests", "sent_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self.requests = 0
        self.accepted = 0
        self.rejected = 0
        self.cut_off = 0
