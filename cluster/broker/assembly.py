"""The parts of a broker, made of its configuration and put together."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from cluster.configuration.authorizer_settings import authorizer_settings
from cluster.configuration.topic_config import check_topic_config
from cluster.controller.controller import Controller
from cluster.controller.topic_admin import TopicAdmin
from cluster.coordinator.groups import Groups
from cluster.coordinator.producer_ids import ProducerIds
from cluster.coordinator.transactions.transactions import Transactions
from cluster.handlers.auto_creation import AutoCreation
from cluster.handlers.context import BrokerContext
from cluster.handlers.dispatch import Dispatcher
from cluster.handlers.served import served_apis
from cluster.network.broker_client import BrokerChannel, BrokerClient
from cluster.network.listener import Listeners, NetworkLimits
from cluster.replication.metadata_cache import MetadataCache, Node
from cluster.replication.replicas import Replicas
from cluster.security.authorizer import Authorizer
from cluster.zookeeper.acl_store import AclStore
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.stored_acls import StoredAcls
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint
from timing.timing_wheel import Timer

if TYPE_CHECKING:
    from cluster.broker.addresses import Addresses
    from cluster.broker.registration import Membership
    from cluster.broker.state_change_publisher import StateFeed
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.environment.ports import Environment
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.connection_limits import ConnectionLimits
    from cluster.network.endpoints import Endpoint
    from cluster.zookeeper.broker_store import BrokerStore
    from cluster.zookeeper.client import ZooKeeper
    from storage.store import LogStore
    from wire.types import BrokerEpoch, WallMs

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """What a broker's parts are made of.

    Attributes:
        config: The settings.
        addresses: Where to listen, and which listener is the brokers' own.
        cluster_id: The cluster.
        zookeeper: The session.
        store: What any broker does with it.
        logs: The open logs.
        membership: The registration.
        connection_limits: How many connections there may be; its hosts have been looked up.
        metrics: What is counted.
        around: The world: time, disk, network, chance.
        nursery: Where requests run.
    """

    config: "BrokerConfig"
    addresses: "Addresses"
    cluster_id: str
    zookeeper: "ZooKeeper"
    store: "BrokerStore"
    logs: "LogStore"
    membership: "Membership"
    connection_limits: "ConnectionLimits"
    metrics: "BrokerMetrics"
    around: "Environment"
    nursery: trio.Nursery
    feed: "StateFeed"


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of a broker, not yet running.

    Attributes:
        context: What handlers work with: replicas, metadata, controller and the rest.
        listeners: Where clients and brokers come in.
        timer: Ends what waits.
        connect: Makes a connection to another broker.
    """

    context: BrokerContext
    listeners: Listeners
    timer: Timer
    connect: Callable[[Node], BrokerChannel]

    def set_broker_epoch(self, epoch: "BrokerEpoch") -> None:
        """Take over a new registration: requests that were meant for the one before are stale from now on."""
        self.context.broker_epoch = epoch
        self.context.replicas.broker_epoch = epoch
        self.context.controller.registered()


def assemble(means: Means) -> Parts:
    """Make the parts of a broker; nothing of it runs or listens yet."""
    config, around = means.config, means.around
    metadata = MetadataCache()
    timer = Timer()
    topic_admin = TopicAdmin(means.store, config, check_topic_config, around.random)
    replicas = Replicas(
        config,
        around,
        means.logs,
        metadata,
        means.store,
        timer,
        means.metrics,
        lambda endpoint, client_id: _client(means, endpoint, client_id, config.replica_socket_timeout_ms),
    )
    controller = Controller(
        config.broker_id,
        means.zookeeper,
        ControllerStore(means.zookeeper, config.broker_id),
        lambda registration: _control_channel(means, registration),
        config,
        around.clock,
        metrics=means.metrics,
        on_state_change=means.feed.controller_decided,
    )
    means.feed.follow(replicas)
    groups = Groups(config, replicas, metadata, timer, around.clock, means.nursery, around.offload)
    context = BrokerContext(
        config=config,
        broker_id=config.broker_id,
        cluster_id=means.cluster_id,
        broker_epoch=means.membership.epoch,
        clock=around.clock,
        disk=around.disk,
        nursery=means.nursery,
        registry=served_apis(),
        metadata=metadata,
        replicas=replicas,
        controller=controller,
        groups=groups,
        transactions=Transactions(
            config,
            replicas,
            metadata,
            groups,
            around.clock,
            means.nursery,
            lambda node: _client(means, node, f"broker-{config.broker_id}-txn", config.request_timeout_ms),
            means.metrics,
        ),
        zookeeper=means.zookeeper,
        store=means.store,
        topic_admin=topic_admin,
        auto_creation=AutoCreation(config, topic_admin),
        producer_ids=ProducerIds(lambda: means.store.next_producer_id_block(config.broker_id)),
        connection_limits=means.connection_limits,
    )
    _authorize(context, around)
    context.registry.measure(means.metrics)
    parts = Parts(
        context,
        _listeners(means, Dispatcher(context)),
        timer,
        lambda node: _client(means, node, f"broker-{config.broker_id}", config.controller_socket_timeout_ms),
    )
    means.membership.on_joined(parts.set_broker_epoch)
    config.on_change(lambda changed: _resize_fetchers(replicas, changed))
    return parts


def _authorize(context: BrokerContext, around: "Environment") -> None:
    """Put the authorizer that is asked for in front of every API; its rules are not loaded yet."""
    settings = authorizer_settings(context.config)
    if settings is None:
        return
    from cluster.handlers.authorization.table import (
        GUARDS,  # messages that a broker without rules need not import
    )

    context.authorizer = Authorizer(settings.super_users, allow_without_rules=settings.allow_without_rules)
    store = AclStore(context.zookeeper, around.clock.wall_ms, around.random.random)
    context.acls = StoredAcls(context.authorizer.table, store)
    context.registry.protect(GUARDS)


def registration_of(config: "BrokerConfig", addresses: "Addresses", now: "WallMs") -> BrokerRegistration:
    """Return what a broker says of itself in ZooKeeper."""
    return BrokerRegistration(
        config.broker_id,
        tuple(
            RegisteredEndpoint(each.listener_name, each.host, each.port, each.security_protocol.name)
            for each in addresses.advertised
        ),
        config.broker_rack,
        timestamp=now,
    )


def describe_partitions(replicas: Replicas) -> list[dict[str, Any]]:
    """Describe the replicas that a broker hosts, as plain values."""
    described = []
    for partition in replicas.hosted:
        log = partition.log
        state = replicas.fetchers.state_of(partition.topic_partition)
        described.append(
            {
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
        )
    return described


def _resize_fetchers(replicas: Replicas, changed: frozenset[str]) -> None:
    if "num.replica.fetchers" in changed:
        replicas.fetchers.resize()


def _listeners(means: Means, dispatcher: Dispatcher) -> Listeners:
    config = means.config
    names = tuple(each.listener_name for each in means.addresses.bound)
    quotas = means.connection_limits.quotas(names, means.addresses.inter_broker, means.nursery)
    limits = NetworkLimits(
        frame_size_max=config.socket_request_max_bytes,
        idle_close_s=config.connections_max_idle_ms / 1000,
        broker_in_flight_bytes_max=config.queued_max_request_bytes,
        send_buffer=_given_size(config, "socket.send.buffer.bytes"),
        receive_buffer=_given_size(config, "socket.receive.buffer.bytes"),
        backlog=config.socket_listen_backlog_size,
    )
    return means.around.make_listeners(
        means.addresses.bound, dispatcher.dispatch, limits=limits, quotas=quotas
    )


def _given_size(config: "BrokerConfig", name: str) -> int | None:
    """Return a buffer size that the operator asked for; the kernel's own sizing is better than Kafka's default."""
    value = config.value(name)
    return value if name in config.originals and isinstance(value, int) and value > 0 else None


def _client(means: Means, peer: "Endpoint | Node", client_id: str, timeout_ms: int) -> BrokerClient:
    """Make a connection to another broker, which has `timeout_ms` for each answer."""
    return BrokerClient(
        peer.host,
        peer.port,
        client_id,
        connect_timeout_s=means.config.socket_connection_setup_timeout_ms / 1000,
        request_timeout_s=timeout_ms / 1000,
        dial=means.around.dial,
    )


def _control_channel(means: Means, registration: BrokerRegistration) -> BrokerClient:
    """Make the connection on which the controller tells a broker what to do."""
    config, listener = means.config, means.addresses.inter_broker
    endpoint = registration.endpoint(listener)
    if endpoint is None:
        # It cannot be told anything until it has the listener, which a new registration would show.
        logger.error("broker %d does not listen on %s", registration.broker_id, listener)
    return BrokerClient(
        "" if endpoint is None else endpoint.host,
        0 if endpoint is None else endpoint.port,
        f"broker-{config.broker_id}-controller",
        connect_timeout_s=config.socket_connection_setup_timeout_ms / 1000,
        request_timeout_s=config.controller_socket_timeout_ms / 1000,
        dial=means.around.dial,
    )
