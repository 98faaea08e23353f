"""DescribeCluster 0 and 1: the cluster's id, its controller and its brokers on the client's listener.

Only brokers can be requested: there are no KRaft controllers here.
"""

from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from cluster.handlers.context import HasClusterId, HasMetadata, HasNursery
from cluster.handlers.metadata_waits import once_told
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from wire.types import NO_BROKER

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry

_BROKERS: Final = 1


class _Broker(HasClusterId, HasMetadata, HasNursery, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve DescribeCluster."""
    registry.add(ApiKey.DESCRIBE_CLUSTER, 0, 1, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Answer from the last UpdateMetadata; wait for the first one."""
    once_told(call, _answer)


def _answer(call: "ApiCall[_Broker]") -> None:
    request: DescribeClusterRequest = call.request
    if request.endpoint_type != _BROKERS:
        call.respond(
            DescribeClusterResponse(
                error_code=Error.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="only the brokers can be described: there are no KRaft controllers",
                endpoint_type=request.endpoint_type,
            )
        )
        return
    snapshot = call.broker.metadata.snapshot
    nodes = (live.nodes.get(call.listener_name) for live in snapshot.brokers.values())
    asked = request.include_cluster_authorized_operations
    call.respond(
        DescribeClusterResponse(
            cluster_id=call.broker.cluster_id,
            controller_id=NO_BROKER if snapshot.controller_id is None else snapshot.controller_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=node.broker_id, host=node.host, port=node.port, rack=node.rack
                )
                for node in nodes
                if node is not None
            ],
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )
    )
