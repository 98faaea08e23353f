"""Requests that only Ottla's brokers serve, sent so that Apache Kafka's brokers never see one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from wire.apis import ApiKey
from wire.errors import RemoteProtocolError
from wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from cluster.network.broker_client import BrokerChannel
    from cluster.replication.metadata_cache import Node
    from wire.schema import Request

SOFTWARE_NAME: Final = "ottla-broker"
"""The client software name that ApiVersions must carry for a broker to list Ottla's own APIs."""
_SOFTWARE_VERSION: Final = "1"
_API_VERSIONS_VERSION: Final = 3

Connect = Callable[["Node"], "BrokerChannel"]


class PeerRequests:
    """Requests to other brokers, each over a connection of its own.

    Args:
        connect: Makes a channel to an address, with time-outs that fit.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._served: dict[Node, bool] = {}

    def is_known_to_serve(self, node: "Node") -> bool | None:
        """Whether the broker there is one of Ottla's; None if it has not been asked yet."""
        return self._served.get(node)

    async def ask(self, node: "Node", message: "Request") -> Any:
        """Send a request, and return the answer; None if the broker there is not one of Ottla's.

        Raises:
            OSError: it cannot be reached, or does not answer in time.
        """
        if self._served.get(node) is False:
            return None
        channel = self._connect(node)
        try:
            if node not in self._served:
                self._served[node] = await _lists_own_apis(channel)
                if not self._served[node]:
                    return None
            return await channel.request(message, 0)
        except RemoteProtocolError:
            self._served[node] = False
            return None
        finally:
            channel.close()

    def forget(self, nodes: "set[Node]") -> None:
        """Forget all brokers but these: another broker may listen at an address by the time it is back."""
        self._served = {node: served for node, served in self._served.items() if node in nodes}


async def _lists_own_apis(channel: "BrokerChannel") -> bool:
    question = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION
    )
    answer = await channel.request(question, _API_VERSIONS_VERSION)
    return any(each.api_key == ApiKey.WATCH_SESSION for each in answer.api_keys)
