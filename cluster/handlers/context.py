"""What handlers work with: the parts of one broker, put together by the composition root."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trio

    from cluster.configuration.broker_config import BrokerConfig
    from cluster.controller.controller import Controller
    from cluster.controller.topic_admin import TopicAdmin
    from cluster.coordinator.groups import Groups
    from cluster.coordinator.producer_ids import ProducerIds
    from cluster.coordinator.transactions.transactions import Transactions
    from cluster.handlers.auto_creation import AutoCreation
    from cluster.handlers.throttling import Throttling
    from cluster.network.connection_limits import ConnectionLimits
    from cluster.network.endpoints import Endpoint
    from cluster.peers.session_watch import SessionWatch
    from cluster.replication.metadata_cache import MetadataCache
    from cluster.replication.replicas import Replicas
    from cluster.security.authorizer import Authorizer
    from cluster.security.scram_credentials import ScramCredentials
    from cluster.zookeeper.broker_store import BrokerStore
    from cluster.zookeeper.client import ZooKeeper
    from cluster.zookeeper.stored_acls import StoredAcls
    from cluster.zookeeper.stored_tokens import StoredTokens
    from storage.disk import Disk
    from timing.clock import Clock
    from wire.apis import ApiKey
    from wire.types import BrokerEpoch, BrokerId


class ServedApi(Protocol):
    """An API that is served, and at which versions."""

    @property
    def key(self) -> "ApiKey":
        """The API."""
        ...

    @property
    def min_version(self) -> int:
        """The lowest version served."""
        ...

    @property
    def max_version(self) -> int:
        """The highest version served."""
        ...


class ServedApis(Protocol):
    """The APIs that a broker serves, in the order of their keys; `Registry` has them."""

    def __iter__(self) -> "Iterator[ServedApi]": ...


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The parts of a running broker that requests reach.

    Attributes:
        config: The broker's configuration; its values change in place when a dynamic one is altered.
        broker_id: This broker's id.
        cluster_id: The cluster's id, as ZooKeeper has it.
        broker_epoch: Which registration of this broker is current; changes when a session expired.
        clock: Wall and monotonic time.
        disk: Tells how full volumes are.
        nursery: Where tasks that outlive a synchronous handler run; ends with the broker.
        served: The APIs that are served, which ApiVersions reports.
        metadata: The cluster as of the last UpdateMetadata.
        replicas: The partitions that this broker hosts.
        controller: This broker's controller, active or not.
        groups: The consumer groups that this broker coordinates.
        transactions: The transactions that this broker coordinates, or has a part in.
        zookeeper: The raw session, for writes that have no typed store.
        store: Typed reads and writes that any broker does.
        scram: The SCRAM credentials of all users, as ZooKeeper has them.
        topic_admin: Creates, extends and deletes topics.
        auto_creation: Creates topics that clients ask for.
        producer_ids: Hands out producer ids.
        connection_limits: How many connections there may be.
        session_watch: Watches over the sessions of other brokers; None where that is switched off.
        tokens: The delegation tokens.
        endpoints: The advertised endpoints by listener name.
        authorizer: Decides who may do what; None where everybody may do everything.
        throttling: Charges requests to client quotas; None while nobody has one.
        acls: The rules that the authorizer decides by, for those who change them; None where there is none.
    """

    config: "BrokerConfig"
    broker_id: "BrokerId"
    cluster_id: str
    broker_epoch: "BrokerEpoch"
    clock: "Clock"
    disk: "Disk"
    nursery: "trio.Nursery"
    served: "ServedApis"
    metadata: "MetadataCache"
    replicas: "Replicas"
    controller: "Controller"
    groups: "Groups"
    transactions: "Transactions"
    zookeeper: "ZooKeeper"
    store: "BrokerStore"
    scram: "ScramCredentials"
    topic_admin: "TopicAdmin"
    auto_creation: "AutoCreation"
    producer_ids: "ProducerIds"
    connection_limits: "ConnectionLimits"
    tokens: "StoredTokens"
    session_watch: "SessionWatch | None" = None
    endpoints: "dict[str, Endpoint]" = field(default_factory=dict)
    authorizer: "Authorizer | None" = None
    acls: "StoredAcls | None" = None
    throttling: "Throttling | None" = None
