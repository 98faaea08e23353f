"""What the fetchers of one broker work with."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.metrics.registry import Counter
from cluster.network.broker_client import BrokerChannel
from cluster.replication.roles.protocol_versions import InterBrokerVersions
from wire.types import BrokerEpoch, BrokerId, TopicPartition

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.replication.throttle import Throttle
    from storage.log import Log
    from timing.clock import Clock


@dataclass(slots=True, eq=False)
class FetcherSurroundings:
    """What every fetcher of one broker shares.

    Attributes:
        broker_id: This broker.
        broker_epoch: Gives the epoch of its registration.
        config: Its settings.
        versions: What the other brokers understand.
        clock: Tells when a delayed partition may go on.
        connect: Gives a channel to a broker, or None while its address is not known.
        failed: Partitions that were given up, and why.
        bytes_in: Counts the bytes that were appended.
        settle: Makes truncations survive power loss, beside the loop, before more is fetched.
        flush: Puts logs on disk before the next fetch acknowledges them.
        flush_on_ack: Whether that is done for every append, ``log.flush.on.ack``.
        throttle: Of what is copied while catching up; None for none.
    """

    broker_id: BrokerId
    broker_epoch: Callable[[], BrokerEpoch]
    config: "BrokerConfig"
    versions: InterBrokerVersions
    clock: "Clock"
    connect: Callable[[BrokerId, int], BrokerChannel | None]
    failed: dict[TopicPartition, str]
    bytes_in: Counter
    settle: "Callable[[Iterable[Log]], Awaitable[None]]"
    flush: "Callable[[Iterable[Log]], Awaitable[None]]"
    flush_on_ack: bool = False
    throttle: "Throttle | None" = None
