"""The components of a broker, as `cluster.broker.assembly` makes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.broker.key_stores import KeyStores
from cluster.handlers.context import BrokerContext
from cluster.network.broker_client import BrokerChannel
from cluster.network.listener import Listeners
from cluster.peers.session_handover import SessionHandover
from cluster.replication.metadata_cache import Node
from cluster.replication.replicas import Replicas
from timing.timing_wheel import Timer

if TYPE_CHECKING:
    from wire.types import BrokerEpoch


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """The components of a broker, not yet running.

    Attributes:
        context: What handlers work with: replicas, metadata, controller and the rest.
        listeners: Accept the connections of clients and brokers.
        timer: Expires requests that wait.
        connect: Makes a connection to another broker.
        handover: Hands the key of our session to other brokers; None where that is switched off.
        key_stores: The certificates of the listeners, and of connections to other brokers.
    """

    context: BrokerContext
    listeners: Listeners
    timer: Timer
    connect: Callable[[Node], BrokerChannel]
    handover: SessionHandover | None
    key_stores: KeyStores

    def set_broker_epoch(self, epoch: "BrokerEpoch") -> None:
        """Adopt the epoch of a new registration: requests meant for an earlier one are stale from now on."""
        self.context.broker_epoch = epoch
        self.context.replicas.broker_epoch = epoch
        self.context.controller.registered()


def describe_components(components: Components) -> dict[str, Any]:
    """Describe a running broker's components, without its replicas, as plain values."""
    context = components.context
    snapshot = context.metadata.snapshot
    return {
        "cluster_id": context.cluster_id,
        "broker_epoch": context.broker_epoch,
        "controller_id": snapshot.controller_id,
        "live_brokers": sorted(snapshot.brokers),
        "metadata_epoch": snapshot.epoch,
        "controller": context.controller.describe(),
        "groups": context.groups.describe(),
        "watched_sessions": [] if context.session_watch is None else context.session_watch.watched,
        "transactions": context.transactions.describe(),
        "cleaner": context.replicas.compaction.describe(),
        "connections": sum(1 for _ in components.listeners.connections),
    }


def partition_descriptions(replicas: Replicas) -> Iterator[dict[str, Any]]:
    """Describe the replicas that a broker hosts, one by one, as plain values."""
    for partition in tuple(replicas.hosted):
        log = partition.log
        state = replicas.fetcher_pool.state_of(partition.topic_partition)
        yield {
            "topic": partition.topic_partition.topic,
            "partition": partition.topic_partition.partition,
            "leader": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "is_leader": partition.leader_log is not None,
            "lag": None if state is None else state.lag,
            "replicas": list(partition.replicas),
            "isr": sorted(partition.isr.isr) if partition.leader_log is not None else [],
            "log_start": None if log is None else log.log_start_offset,
            "log_end": None if log is None else log.log_end_offset,
            "high_watermark": None if log is None else log.high_watermark,
        }
