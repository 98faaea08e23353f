"""Connections to other brokers."""

import logging
from typing import TYPE_CHECKING, Final

from cluster.network.broker_client import BrokerClient
from cluster.network.dialling import Dial

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.network.endpoints import Endpoint
    from cluster.replication.metadata_cache import Node
    from cluster.zookeeper.znodes import BrokerRegistration

logger = logging.getLogger(__name__)

_ANSWER_GRACE_MS: Final = 5_000
_STANDSTILL_MS: Final = 30_000


class BrokerClients:
    """Makes connections from this broker to others; each opens its socket on its first request.

    Args:
        config: Timeouts, and this broker's id.
        dial: Connects to the listener that brokers use among themselves.
        control_plane: The listener that controllers send their requests to.
        dial_control_plane: Connects to the control plane listener.
    """

    def __init__(
        self, config: "BrokerConfig", dial: Dial, control_plane: str, dial_control_plane: Dial
    ) -> None:
        self._config = config
        self._dial = dial
        self._control_plane = control_plane
        self._dial_control_plane = dial_control_plane

    def replication(self, endpoint: "Endpoint", client_id: str) -> BrokerClient:
        """Make a connection to fetch from a leader."""
        return self._client(endpoint.host, endpoint.port, client_id, self._config.replica_socket_timeout_ms)

    def to_controller(self, node: "Node") -> BrokerClient:
        """Make a connection to the broker that is the controller."""
        client_id = f"broker-{self._config.broker_id}"
        return self._client(node.host, node.port, client_id, self._config.controller_socket_timeout_ms)

    def to_coordinator(self, node: "Node") -> BrokerClient:
        """Make a connection to a transaction coordinator, or from one to a leader."""
        client_id = f"broker-{self._config.broker_id}-txn"
        # A leader answers within its own time limit, which this connection's must exceed.
        return self._client(
            node.host, node.port, client_id, self._config.request_timeout_ms + _ANSWER_GRACE_MS
        )

    def from_controller(self, registration: "BrokerRegistration") -> BrokerClient:
        """Make the connection on which the controller sends a broker its requests."""
        endpoint = registration.endpoint(self._control_plane)
        if endpoint is None:
            # Nothing can be sent to it until it registers again with this listener.
            logger.error("broker %d does not listen on %s", registration.broker_id, self._control_plane)
        return self._client(
            "" if endpoint is None else endpoint.host,
            0 if endpoint is None else endpoint.port,
            f"broker-{self._config.broker_id}-controller",
            self._config.controller_socket_timeout_ms,
            dial=self._dial_control_plane,
        )

    def to_peer(self, node: "Node") -> BrokerClient:
        """Make a connection to ask another broker about a third one, or to hand over our session's key."""
        limit_ms = self._config.ottla_peer_timeout_ms
        client_id = f"broker-{self._config.broker_id}-peer"
        return self._client(node.host, node.port, client_id, limit_ms // 2, connect_timeout_ms=limit_ms // 5)

    def to_watched(self, node: "Node") -> BrokerClient:
        """Make a connection to a broker whose session we watch over; its timeout outlasts a temporary hang."""
        limit_ms = self._config.ottla_peer_timeout_ms
        client_id = f"broker-{self._config.broker_id}-watch"
        timeout_ms = max(_STANDSTILL_MS, 10 * limit_ms)
        return self._client(node.host, node.port, client_id, timeout_ms, connect_timeout_ms=2 * limit_ms)

    def _client(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int,
        *,
        connect_timeout_ms: int | None = None,
        dial: Dial | None = None,
    ) -> BrokerClient:
        if connect_timeout_ms is None:
            connect_timeout_ms = self._config.socket_connection_setup_timeout_ms
        return BrokerClient(
            host,
            port,
            client_id,
            connect_timeout_s=connect_timeout_ms / 1000,
            request_timeout_s=timeout_ms / 1000,
            dial=dial or self._dial,
        )
