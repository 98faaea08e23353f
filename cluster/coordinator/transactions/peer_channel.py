"""A connection to another broker, made again when it breaks or the broker's address changes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.network.broker_client import ConnectionFailedError
from wire.apis import ApiKey
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from cluster.network.broker_client import BrokerChannel
    from cluster.replication.metadata_cache import Node
    from wire.schema import Request


class PeerChannel:
    """One channel to one broker; one request at a time.

    Args:
        find: Returns the broker's present address; None if it is not live.
        connect: Makes a channel to an address.
    """

    def __init__(self, find: "Callable[[], Node | None]", connect: "Callable[[Node], BrokerChannel]") -> None:
        self._find = find
        self._connect = connect
        self._node: Node | None = None
        self._channel: BrokerChannel | None = None
        self._versions: dict[int, int] | None = None

    async def request(self, message: "Request", version: int) -> Any:
        """Send a request, and return the decoded response. Cancelled, it closes the connection.

        Raises:
            ConnectionFailedError: the connection broke or the time ran out: the outcome is unknown. It is closed,
                so that nothing sent on it can be carried out after what is sent next.
            ApiError: BROKER_NOT_AVAILABLE: the broker is not live.
            RemoteProtocolError: the response cannot be decoded.
        """
        channel = self._current()
        try:
            return await channel.request(message, version)
        except (ConnectionFailedError, RemoteProtocolError):
            self.close()
            raise

    async def highest_version(self, key: ApiKey) -> int:
        """Return the highest version of an API that the broker serves, -1 if it serves none.

        Asked once for each connection.

        Raises:
            ConnectionFailedError, ApiError, RemoteProtocolError: as `request`.
        """
        self._current()
        if self._versions is None:
            answer = await self.request(ApiVersionsRequest(), 0)
            if answer.error_code:
                raise ApiError(Error.from_code(answer.error_code))
            self._versions = {each.api_key: each.max_version for each in answer.api_keys}
        return self._versions.get(key, -1)

    @property
    def is_used(self) -> bool:
        """Whether an earlier request was answered on this connection: it may have gone stale since."""
        return self._versions is not None

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        channel, self._channel, self._versions = self._channel, None, None
        if channel is not None:
            channel.close()

    def _current(self) -> "BrokerChannel":
        node = self._find()
        if node is None:
            self.close()
            raise ApiError(Error.BROKER_NOT_AVAILABLE)
        if self._channel is None or node != self._node:
            self.close()
            self._node = node
            self._channel = self._connect(node)
        return self._channel
