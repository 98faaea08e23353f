"""Makes the components of a broker from its configuration and its environment, and connects them."""

from functools import partial
from typing import TYPE_CHECKING

import trio

from cluster.broker.broker_clients import BrokerClients
from cluster.broker.components import Components
from cluster.broker.key_stores import KeyStores
from cluster.broker.listener_security import broker_dial, listener_security
from cluster.broker.process_limits import connection_descriptor_max
from cluster.broker.token_upkeep import stored_tokens
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
from cluster.handlers.registry import Registry
from cluster.handlers.served import served_apis
from cluster.network.listener import Listeners
from cluster.network.open_connections import NetworkLimits
from cluster.peers.peer_requests import PeerRequests
from cluster.peers.session_handover import SessionHandover
from cluster.peers.session_watch import SessionWatch
from cluster.replication.metadata_cache import MetadataCache
from cluster.replication.replicas import Replicas
from cluster.security.authorizer import Authorizer
from cluster.zookeeper.acl_store import AclStore
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.stored_acls import StoredAcls
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint
from timing.timing_wheel import Timer

if TYPE_CHECKING:
    from cluster.broker.addresses import Addresses
    from cluster.broker.registration import Registration
    from cluster.broker.state_change_publisher import StateChangePublisher
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.environment.ports import Environment, Session
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.connection_limits import ConnectionLimits
    from cluster.security.scram_credentials import ScramCredentials
    from cluster.zookeeper.broker_store import BrokerStore
    from storage.store import LogStore
    from wire.types import TopicPartition, WallMs


def assemble(
    config: "BrokerConfig",
    environment: "Environment",
    *,
    addresses: "Addresses",
    cluster_id: str,
    zookeeper: "Session",
    store: "BrokerStore",
    logs: "LogStore",
    registration: "Registration",
    connection_limits: "ConnectionLimits",
    metrics: "BrokerMetrics",
    publisher: "StateChangePublisher",
    scram: "ScramCredentials",
    nursery: trio.Nursery,
) -> Components:
    """Make the components of a broker; none of them runs or listens yet.

    Args:
        config: The settings.
        environment: Time, disk, network, randomness.
        addresses: Where to listen, and which listener brokers use among themselves.
        cluster_id: The cluster.
        zookeeper: The session.
        store: The reads and writes in ZooKeeper that any broker makes.
        logs: The open logs.
        registration: This broker's registration and its epoch.
        connection_limits: How many connections are allowed; its hosts have been looked up.
        metrics: What is counted.
        publisher: Publishes state changes.
        scram: The SCRAM credentials of all users.
        nursery: Where requests run.
    """
    clock = environment.clock
    key_stores = KeyStores(config)
    dial = broker_dial(config, addresses, environment, key_stores, addresses.inter_broker)
    control_dial = broker_dial(config, addresses, environment, key_stores, addresses.controller)
    clients = BrokerClients(config, dial, addresses.controller, control_dial)
    metadata = MetadataCache()
    timer = Timer()
    topic_admin = TopicAdmin(store, config, check_topic_config, environment.random)
    replicas = Replicas(config, environment, logs, metadata, store, timer, metrics, clients.replication)
    controller = Controller(
        config.broker_id,
        zookeeper,
        ControllerStore(zookeeper, config.broker_id),
        clients.from_controller,
        config,
        clock,
        metrics=metrics,
        on_state_change=publisher.controller_decided,
    )
    publisher.follow(replicas)
    producer_ids = ProducerIds(lambda: store.next_producer_id_block(config.broker_id), nursery)
    groups = Groups(config, replicas, metadata, timer, clock, nursery, environment.offloads.reads)
    registry = served_apis()
    registry.measure(metrics)
    transactions = Transactions(
        config,
        replicas,
        metadata,
        groups,
        producer_ids,
        partial(_exists, store),
        timer,
        clock,
        nursery,
        clients.to_coordinator,
        metrics,
        environment.offloads.reads,
    )
    context = BrokerContext(
        config=config,
        broker_id=config.broker_id,
        cluster_id=cluster_id,
        broker_epoch=registration.epoch,
        clock=clock,
        disk=environment.disk,
        nursery=nursery,
        served=registry,
        metadata=metadata,
        replicas=replicas,
        controller=controller,
        groups=groups,
        transactions=transactions,
        zookeeper=zookeeper,
        store=store,
        scram=scram,
        topic_admin=topic_admin,
        auto_creation=AutoCreation(config, topic_admin),
        producer_ids=producer_ids,
        connection_limits=connection_limits,
        tokens=stored_tokens(config, zookeeper, clock.wall_ms),
    )
    _authorize(context, registry, environment)
    listeners = _listeners(context, registry, environment, addresses, key_stores)
    handover = None
    if config.ottla_peer_timeout_ms > 0:
        context.session_watch, handover = _watch_sessions(
            context, environment, zookeeper, clients, addresses.inter_broker
        )
    components = Components(context, listeners, timer, clients.to_controller, handover, key_stores)
    registration.on_joined(components.set_broker_epoch)
    return components


def _listeners(
    context: BrokerContext,
    registry: Registry,
    environment: "Environment",
    addresses: "Addresses",
    key_stores: KeyStores,
) -> Listeners:
    """Make the listeners, which hand every request to the handlers; their ports are not bound yet."""
    config = context.config
    quotas = context.connection_limits.quotas(
        tuple(each.listener_name for each in addresses.bound),
        addresses.inter_broker,
        addresses.control_plane,
        context.nursery,
    )
    return environment.make_listeners(
        addresses.bound,
        Dispatcher(context, registry).dispatch,
        limits=_network_limits(config),
        quotas=quotas,
        security=listener_security(config, addresses, context, environment, key_stores),
    )


def _authorize(context: BrokerContext, registry: Registry, environment: "Environment") -> None:
    """Put the configured authorizer in front of every API; its rules are not loaded yet."""
    settings = authorizer_settings(context.config)
    if settings is None:
        return
    from cluster.handlers.authorization.table import (
        GUARDS,  # messages that a broker without rules need not import
    )

    context.authorizer = Authorizer(settings.super_users, allow_without_rules=settings.allow_without_rules)
    store = AclStore(context.zookeeper, environment.clock.wall_ms, environment.random.random)
    context.acls = StoredAcls(context.authorizer.table, store)
    registry.protect(GUARDS)


def _watch_sessions(
    context: BrokerContext,
    environment: "Environment",
    zookeeper: "Session",
    clients: BrokerClients,
    listener: str,
) -> tuple[SessionWatch, SessionHandover]:
    """Make the watch over other brokers' sessions, and the handover that has others watch over ours."""
    requests = PeerRequests(clients.to_peer)
    watch = SessionWatch(
        context.broker_id,
        listener,
        context.metadata,
        context.config.ottla_peer_timeout_ms / 1000,
        clients.to_watched,
        environment.dial,
        requests,
        environment.close_session,
        lambda: zookeeper.session_is_live(environment.clock.monotonic()),
        environment.clock,
    )
    handover = SessionHandover(
        context.broker_id,
        listener,
        context.metadata,
        requests,
        lambda: zookeeper.session_key,
        lambda: context.broker_epoch,
    )
    return watch, handover


async def _exists(store: "BrokerStore", partition: "TopicPartition") -> bool:
    """Return whether a partition exists in ZooKeeper."""
    found = await store.read_topic(partition.topic)
    return found is not None and partition.partition in found[0].partitions


def registration_of(config: "BrokerConfig", addresses: "Addresses", now: "WallMs") -> BrokerRegistration:
    """Return a broker's registration in ZooKeeper."""
    return BrokerRegistration(
        config.broker_id,
        tuple(
            RegisteredEndpoint(each.listener_name, each.host, each.port, each.security_protocol.name)
            for each in addresses.advertised
        ),
        config.broker_rack,
        timestamp=now,
    )


def _network_limits(config: "BrokerConfig") -> NetworkLimits:
    return NetworkLimits(
        frame_size_max=config.socket_request_max_bytes,
        idle_close_s=config.connections_max_idle_ms / 1000,
        broker_in_flight_bytes_max=config.queued_max_request_bytes,
        send_buffer=_given_size(config, "socket.send.buffer.bytes"),
        receive_buffer=_given_size(config, "socket.receive.buffer.bytes"),
        backlog=config.socket_listen_backlog_size,
        descriptor_max=connection_descriptor_max(),
    )


def _given_size(config: "BrokerConfig", name: str) -> int | None:
    """Return a buffer size that the operator asked for; the kernel's own sizing is better than Kafka's default."""
    value = config.value(name)
    return value if name in config.originals and isinstance(value, int) and value > 0 else None
