"""What one client is set to: connections and metadata. Times are seconds; defaults are Java's unless noted."""

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from security.sasl_client import SaslCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How brokers are connected to; the arguments of `connect`.

    Attributes:
        client_id: What brokers see the client as, in logs and quotas.
        rack: Where this client stands, so that followers in the same rack serve its fetches (KIP-392).
        request_timeout: How long a broker may take to answer; the connection is closed then.
        api_timeout: How long each call of `Kafka.admin` may take, its retries included.
        reconnect_backoff: The wait before a broker is dialled a second time; doubles to the maximum.
        reconnect_backoff_max: The longest such wait.
        retry_backoff: The wait before a failed request is sent again; doubles to the maximum.
        retry_backoff_max: The longest such wait.
        connection_setup_timeout: How long the first attempt to connect may take; doubles to the maximum.
        connection_setup_timeout_max: The longest such time.
        connections_max_idle: A connection without requests for this long is closed.
        metadata_max_age: How old metadata grow before they are asked for again.
        rebootstrap_after: Without metadata for this long, the bootstrap addresses are used again (KIP-1102).
        close_timeout: How long leaving a block may take while brokers are away.
        tls: The context to wrap connections with; None for plain TCP.
        sasl: The mechanism and credentials; None for none.
    """

    client_id: str = "ottla"
    rack: str | None = None
    request_timeout: float = 30.0
    api_timeout: float = 60.0
    reconnect_backoff: float = 0.05
    reconnect_backoff_max: float = 1.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    connection_setup_timeout: float = 10.0
    connection_setup_timeout_max: float = 30.0
    connections_max_idle: float = 540.0
    metadata_max_age: float = 300.0
    rebootstrap_after: float = 300.0
    close_timeout: float = 5.0
    tls: ssl.SSLContext | None = None
    sasl: "SaslCredentials | None" = None
