"""ControlledShutdown: a broker asks the controller to move its leaders away before it stops.

Version 0 has a request header without client id.

Versions:
    2: broker epoch.
    3: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, field
from wire.types import BrokerEpoch, BrokerId


class ControlledShutdownRequest(Request, api=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    broker_id: BrokerId = field(INT32)
    broker_epoch: BrokerEpoch = field(INT64, versions="2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class ControlledShutdownResponse(Response, api=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    error_code: int = field(INT16)
    remaining_partitions: Sequence[RemainingPartition] = field(array(RemainingPartition))
