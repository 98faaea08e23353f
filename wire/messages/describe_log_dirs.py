"""DescribeLogDirs: log directories of a broker, and how much the replicas in them hold.

Versions:
    1: on a quota violation the answer comes before the throttling.
    2: compact lengths and tagged fields (flexible).
    3: one error for the whole answer.
    4: total and usable bytes of each volume.
"""

from collections.abc import Sequence

from wire.apis import ApiKey
from wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, field


class DescribableLogDirTopic(Struct):
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


class DescribeLogDirsRequest(Request, api=ApiKey.DESCRIBE_LOG_DIRS, versions="0-4", flexible="2+"):
    topics: Sequence[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


class DescribeLogDirsTopic(Struct):
    name: str = field(STRING)
    partitions: Sequence[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: Sequence[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, versions="4+", default=-1, ignorable=True)
    usable_bytes: int = field(INT64, versions="4+", default=-1, ignorable=True)


class DescribeLogDirsResponse(Response, api=ApiKey.DESCRIBE_LOG_DIRS, versions="0-4", flexible="2+"):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, versions="3+", ignorable=True)
    results: Sequence[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))
