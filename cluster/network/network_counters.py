"""What the connections of one broker count: plain additions, read by the metrics at scrape time."""


class NetworkCounters:
    """Totals since the broker's start.

    Attributes:
        received_bytes: Bytes received from peers.
        sent_bytes: Bytes that sockets accepted.
        requests: Requests begun.
        accepted: Connections accepted.
        rejected: Connections over a limit, closed unread: at once, or after being held.
        cut_off: Connections closed for idleness or for being slow.
        authenticated: Connections that passed SASL, or TLS on a listener without SASL.
        authenticated_without_end: Of these, by clients that do not know when their session ends.
        authentication_failed: Connections refused by TLS or SASL.
        reauthenticated: Successful re-authentications.
        reauthentication_failed: Failed re-authentications.
        expired_sessions: Connections closed because their session had ended.
    """

    __slots__ = (
        "accepted",
        "authenticated",
        "authenticated_without_end",
        "authentication_failed",
        "cut_off",
        "expired_sessions",
        "reauthenticated",
        "reauthentication_failed",
        "received_bytes",
        "rejected",
        "requests",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self.requests = 0
        self.accepted = 0
        self.rejected = 0
        self.cut_off = 0
        self.authenticated = 0
        self.authenticated_without_end = 0
        self.authentication_failed = 0
        self.reauthenticated = 0
        self.reauthentication_failed = 0
        self.expired_sessions = 0
