"""ElectLeaders: elect the preferred leader, or an unclean one, for partitions.

``topic_partitions`` is None for all partitions.

Versions:
    1: election type; one error for the whole answer (KIP-460).
    2: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, field


class TopicPartitions(Struct):
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class ElectLeadersRequest(Request, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    election_type: int = field(INT8, versions="1+")
    topic_partitions: Sequence[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(INT32, default=60000)


class PartitionResult(Struct):
    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = field(STRING)
    partition_result: Sequence[PartitionResult] = field(array(PartitionResult))


class ElectLeadersResponse(Response, api=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, versions="1+")
    replica_election_results: Sequence[ReplicaElectionResult] = field(array(ReplicaElectionResult))
