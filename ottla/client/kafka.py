"""The client: one object that owns connections, metadata and every task, for the length of one block.

Producers, readers, groups and the administration are imported when the first of them is made: a program pays for what
it uses.
"""

import random
import re
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from ottla.addresses import parse_addresses
from ottla.client import runtime
from ottla.client.backoff import Backoff
from ottla.client.broker_links import BrokerLinks, Dialer
from ottla.client.codecs import Topic, as_topic
from ottla.client.context import ClientContext
from ottla.client.errors import ClosedClient
from ottla.client.metadata import ClusterMetadata
from ottla.client.metadata_refresh import MetadataRefresh
from ottla.client.metrics import Metrics
from ottla.client.settings import ConnectionSettings
from ottla.client.task_scope import TaskScope
from ottla.client.waits import Waits
from timing.clock import RecordClock, SystemClock

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.group import Group
    from ottla.client.group_options import GroupOptions
    from ottla.client.producer import Producer
    from ottla.client.producer_options import ProducerOptions
    from ottla.client.reader import Reader
    from ottla.client.reader_options import ReaderOptions
    from ottla.client.transactional_producer import TransactionalProducer
    from security.sasl_client import SaslCredentials

K = TypeVar("K")
V = TypeVar("V")


class Kafka:
    """A connected client; made by `connect`, used as ``async with``.

    Everything made from it lives inside its block. What fails in one of its tasks is raised from the block.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: ConnectionSettings,
        *,
        clock: RecordClock | None = None,
        source: random.Random | None = None,
        dialer: Dialer | None = None,
        waits: Waits | None = None,
    ) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._settings = settings
        self._clock: RecordClock = clock or SystemClock()
        self._source = source or random.Random()
        self._dialer = dialer
        self._waits = waits or Waits()
        self._scope = TaskScope()
        self._nursery: runtime.Nursery | None = None
        self._context: ClientContext | None = None
        self._admin: Admin | None = None

    async def __aenter__(self) -> Self:
        self._nursery = nursery = await self._scope.open()
        settings = self._settings
        metadata = ClusterMetadata()
        links = BrokerLinks(self._bootstrap, metadata, settings, nursery, self._source, self._dialer)
        refresh = MetadataRefresh(links, metadata, settings, self._source)
        self._context = ClientContext(
            settings,
            metadata,
            links,
            refresh,
            nursery,
            self._clock,
            self._source,
            Metrics(),
            Backoff(settings.retry_backoff, settings.retry_backoff_max, self._source),
        )
        addresses = ", ".join(map(str, self._bootstrap))
        try:
            with self._waits.on(f"a broker to answer at {addresses}"):
                await refresh.refresh()
        except BaseException as error:
            links.close()
            if not await self._scope.close(nursery, type(error), error, error.__traceback__):
                raise
        nursery.start_soon(refresh.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        context = self.context
        self._context = self._admin = None
        context.links.close()
        assert self._nursery is not None
        return await self._scope.close(self._nursery, kind, error, trace)

    @property
    def context(self) -> ClientContext:
        """The parts that producers, readers, groups and tools are made of.

        Raises:
            ClosedClient: The client is used outside of its block.
        """
        if self._context is None:
            raise ClosedClient("the client is used outside of its block")
        return self._context

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id."""
        return self.context.metadata.cluster_id

    @property
    def admin(self) -> "Admin":
        """The cluster's administration, over connections of this client; see `ottla.client.admin`."""
        if self._admin is None:
            from ottla.client.admin import Admin
            from ottla.client.admin.router import Router

            self._admin = Admin(Router(self.context, self._settings.api_timeout, self._waits))
        return self._admin

    def metrics(self) -> Mapping[str, float]:
        """Return what was counted so far, under the names of Kafka's Java clients where they have one."""
        return self.context.metrics.read()

    @overload
    def producer(
        self, *, transactional_id: None = None, **options: Unpack["ProducerOptions"]
    ) -> "Producer": ...
    @overload
    def producer(
        self,
        *,
        transactional_id: str,
        transaction_timeout: float = 60.0,
        **options: Unpack["ProducerOptions"],
    ) -> "TransactionalProducer": ...
    def producer(
        self, *, transactional_id: str | None = None, transaction_timeout: float = 60.0, **options: Any
    ) -> "Producer | TransactionalProducer":
        """Make a producer; see `ProducerOptions` for the arguments.

        Args:
            transactional_id: Makes it transactional: one producer at a time may have the id.
            transaction_timeout: Seconds after which the coordinator aborts an open transaction.
            options: How to send.

        Raises:
            TypeError: An option is unknown.
            ValueError: The values do not fit together.
        """
        from ottla.client.producer_options import make_producer, make_transactional_producer

        if transactional_id is None:
            return make_producer(self.context, **options)
        return make_transactional_producer(self.context, transactional_id, transaction_timeout, **options)

    @overload
    def reader(
        self, topics: str | Sequence[str], **options: Unpack["ReaderOptions"]
    ) -> "Reader[bytes, bytes]": ...
    @overload
    def reader(
        self, topics: Topic[K, V] | Sequence[Topic[K, V]], **options: Unpack["ReaderOptions"]
    ) -> "Reader[K, V]": ...
    def reader(self, topics: Any, **options: Any) -> "Reader[Any, Any]":
        """Make a reader without a group; see `ReaderOptions` for the arguments.

        Args:
            topics: One topic or several, by name or typed.
            options: ``start`` must be given.

        Raises:
            TypeError: ``start`` is missing, or an option is unknown.
        """
        from ottla.client.reader_options import make_reader

        listed = [topics] if isinstance(topics, str | Topic) else list(topics)
        return make_reader(self.context, [as_topic(topic) for topic in listed], **options)

    @overload
    def group(
        self, group_id: str, topics: str | Sequence[str] | re.Pattern[str], **options: Unpack["GroupOptions"]
    ) -> "Group[bytes, bytes]": ...
    @overload
    def group(
        self, group_id: str, topics: Topic[K, V] | Sequence[Topic[K, V]], **options: Unpack["GroupOptions"]
    ) -> "Group[K, V]": ...
    def group(self, group_id: str, topics: Any, **options: Any) -> "Group[Any, Any]":
        """Make a member of a group; see `GroupOptions` for the arguments.

        Args:
            group_id: The group.
            topics: One topic or several, by name or typed; or a compiled regular expression, which whole names match.
            options: ``start`` must be given.

        Raises:
            TypeError: ``start`` is missing, or an option is unknown.
            ValueError: There is no such assignor, or the values do not fit together.
        """
        from ottla.client.group_options import make_group

        return make_group(self.context, group_id, topics, **options)


def connect(
    bootstrap_servers: str,
    *,
    client_id: str = "ottla",
    rack: str | None = None,
    tls: ssl.SSLContext | None = None,
    sasl: "SaslCredentials | None" = None,
    **settings: Any,
) -> Kafka:
    """Connect to a cluster, for the length of an ``async with`` block.

    Entering the block asks each address once, and fails where none leads to a cluster. Leaving it closes everything.

    Args:
        bootstrap_servers: ``host:port,host:port``; any that answers will do.
        client_id: What brokers see the client as.
        rack: Where the client stands: replicas in the same rack serve its fetches.
        tls: The context to wrap connections with; None for plain TCP.
        sasl: Credentials, made by `plain`, `scram` or `oauth_bearer`; None for none.
        settings: Timeouts and back-offs: the fields of `ConnectionSettings`, in seconds.

    Raises:
        ValueError: The addresses are not written as ``host:port``.
        BootstrapError: On entering: no address leads to a cluster; one line for each, with the reason.
        AuthenticationError: On entering: a broker refuses the credentials or the TLS handshake.
    """
    made = ConnectionSettings(client_id=client_id, rack=rack, tls=tls, sasl=sasl, **settings)
    return Kafka(bootstrap_servers, made)
