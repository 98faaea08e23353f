"""What the parts of one client share."""

import random
from dataclasses import dataclass

from ottla.client import runtime
from ottla.client.backoff import Backoff
from ottla.client.broker_links import BrokerLinks
from ottla.client.metadata import ClusterMetadata
from ottla.client.metadata_refresh import MetadataRefresh
from ottla.client.metrics import Metrics
from ottla.client.settings import ConnectionSettings
from timing.clock import RecordClock


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The connections, metadata and clocks of one `connect`."""

    settings: ConnectionSettings
    metadata: ClusterMetadata
    links: BrokerLinks
    refresh: MetadataRefresh
    nursery: runtime.Nursery
    clock: RecordClock
    source: random.Random
    metrics: Metrics
    retry_backoff: Backoff
