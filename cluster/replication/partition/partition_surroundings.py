"""What every partition of one broker shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.metrics.catalogue import BrokerMetrics
from wire.types import BrokerId

if TYPE_CHECKING:
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.partition.partition import Partition


@dataclass(slots=True, eq=False)
class PartitionSurroundings:
    """What every partition of one broker shares.

    Attributes:
        broker_id: This broker.
        metadata: Tells which brokers are live.
        lag_time_max_s: How long a follower may be behind and stay in sync, ``replica.lag.time.max.ms`` in seconds.
        metrics: What the data path counts into.
        submit_isr_change: Takes a partition that has just proposed an ISR change.
        group_flush: Takes a partition that has appended, and calls its `flushed` when that is on disk.
        flush_on_ack: Whether every acknowledgement waits for the disk, ``log.flush.on.ack``.
        wake_follower: Has a follower's parked fetches answered, so that it asks for partitions it does not fetch yet.
    """

    broker_id: BrokerId
    metadata: "MetadataCache"
    lag_time_max_s: float
    metrics: BrokerMetrics
    submit_isr_change: "Callable[[Partition], None]"
    wake_follower: Callable[[BrokerId], None]
    group_flush: "Callable[[Partition], None]"
    flush_on_ack: bool = False
