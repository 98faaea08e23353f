"""The parts of a broker that handlers use, assembled by the composition root.

A handler names the parts that it needs by the type of its call: one that takes an ``ApiCall[HasGroups]`` can reach the
groups and nothing else, and a test has to supply only these.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


class CallContext(Protocol):
    """The parts that every request needs: the clock, the authorizer, and the quotas."""

    clock: "Clock"
    authorizer: "Authorizer | None"
    throttling: "Throttling | None"


class HasAcls(CallContext, Protocol):
    """A broker with the access rules."""

    acls: "StoredAcls | None"


class HasAutoCreation(CallContext, Protocol):
    """A broker with the creation of topics that clients ask for."""

    auto_creation: "AutoCreation"


class HasBrokerId(CallContext, Protocol):
    """A broker with its own id."""

    broker_id: "BrokerId"


class HasClusterId(CallContext, Protocol):
    """A broker with the cluster's id."""

    cluster_id: "str"


class HasConfig(CallContext, Protocol):
    """A broker with its configuration."""

    config: "BrokerConfig"


class HasConnectionLimits(CallContext, Protocol):
    """A broker with the limits on connections."""

    connection_limits: "ConnectionLimits"


class HasController(CallContext, Protocol):
    """A broker with its controller, active or not."""

    controller: "Controller"


class HasDisk(CallContext, Protocol):
    """A broker with the disk."""

    disk: "Disk"


class HasGroups(CallContext, Protocol):
    """A broker with the groups that it coordinates."""

    groups: "Groups"


class KeyStoreChecks(Protocol):
    """Checks settings of key stores before they are stored."""

    async def check(self, values: "Mapping[str, str]") -> None: ...


class HasKeyStores(CallContext, Protocol):
    """A broker with the key stores of its listeners; None if it has none."""

    key_stores: "KeyStoreChecks | None"


class HasMetadata(CallContext, Protocol):
    """A broker with the state of the cluster."""

    metadata: "MetadataCache"


class HasNursery(CallContext, Protocol):
    """A broker with a nursery for tasks that outlive a synchronous handler."""

    nursery: "trio.Nursery"


class HasProducerIds(CallContext, Protocol):
    """A broker with producer ids."""

    producer_ids: "ProducerIds"


class HasReplicas(CallContext, Protocol):
    """A broker with the partitions that it hosts."""

    replicas: "Replicas"


class HasScram(CallContext, Protocol):
    """A broker with the SCRAM credentials."""

    scram: "ScramCredentials"


class HasServedApis(CallContext, Protocol):
    """A broker with the APIs that it serves."""

    served: "ServedApis"


class HasSessionWatch(CallContext, Protocol):
    """A broker with the watch over the sessions of other brokers."""

    session_watch: "SessionWatch | None"


class HasStore(CallContext, Protocol):
    """A broker with the typed store in ZooKeeper."""

    store: "BrokerStore"


class HasTokens(CallContext, Protocol):
    """A broker with the delegation tokens."""

    tokens: "StoredTokens"


class HasTopicAdmin(CallContext, Protocol):
    """A broker with the creation and removal of topics."""

    topic_admin: "TopicAdmin"


class HasTransactions(CallContext, Protocol):
    """A broker with the transactions that it coordinates or takes part in."""

    transactions: "Transactions"


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The parts of a running broker that requests reach.

    Attributes:
        config: The broker's configuration; its values change in place when a dynamic one is altered.
        broker_id: This broker's id.
        cluster_id: The cluster's id, as ZooKeeper has it.
        broker_epoch: The epoch of this broker's present registration; changes when a session expires.
        clock: Wall and monotonic time.
        disk: Reports how full volumes are.
        nursery: Where tasks that outlive a synchronous handler run; ends with the broker.
        served: The APIs that are served, which ApiVersions reports.
        metadata: The cluster as of the last UpdateMetadata.
        replicas: The partitions that this broker hosts.
        controller: This broker's controller, active or not.
        groups: The consumer groups that this broker coordinates.
        transactions: The transactions that this broker coordinates or takes part in.
        zookeeper: The raw session, for writes that `store` lacks.
        store: The typed reads and writes that any broker makes.
        scram: The SCRAM credentials of all users, as ZooKeeper has them.
        topic_admin: Creates, extends and deletes topics.
        auto_creation: Creates topics that clients ask for.
        producer_ids: Hands out producer ids.
        connection_limits: How many connections are allowed.
        session_watch: Watches over the sessions of other brokers; None if that is disabled.
        tokens: The delegation tokens.
        endpoints: The advertised endpoints by listener name.
        authorizer: Decides who may do what; None if everybody may do everything.
        throttling: Charges requests to client quotas; None while no client has a quota.
        key_stores: The key stores of the listeners; None if no listener has TLS.
        acls: The authorizer's rules, for the APIs that change them; None without an authorizer.
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
    key_stores: "KeyStoreChecks | None" = None
