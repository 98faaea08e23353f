"""AlterReplicaLogDirs: move replicas between the log directories of one broker.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class AlterReplicaLogDir(Struct):
    path: str = field(STRING)
    topics: Sequence[AlterReplicaLogDirTopic] = field(array(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Request, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    dirs: Sequence[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(STRING)
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = field(array(AlterReplicaLogDirPartitionResult))


class AlterReplicaLogDirsResponse(Response, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    results: Sequence[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))
