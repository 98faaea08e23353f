"""DescribeCluster: cluster id, controller and brokers (KIP-700).

Versions:
    1: endpoint type: brokers or KRaft controllers (KIP-919).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT8, INT16, INT32, STRING, Request, Response, Struct, array, field
from wire.types import BrokerId


class DescribeClusterRequest(Request, api=ApiKey.DESCRIBE_CLUSTER, versions="0-1", flexible="0+"):
    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, versions="1+", default=1)


class DescribeClusterBroker(Struct):
    broker_id: BrokerId = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable="0+", default=None)


class DescribeClusterResponse(Response, api=ApiKey.DESCRIBE_CLUSTER, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)
    endpoint_type: int = field(INT8, versions="1+", default=1)
    cluster_id: str = field(STRING)
    controller_id: BrokerId = field(INT32, default=-1)
    brokers: Sequence[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=-2147483648)
