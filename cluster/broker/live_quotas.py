"""The quotas of clients and addresses, kept as ZooKeeper has them while the broker runs."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from cluster.handlers.throttling import Throttling
from cluster.network.address_limits import AddressLimitError
from cluster.security.quotas.client_quotas import ClientQuotas
from cluster.security.quotas.entities import DEFAULT, Name, QuotaEntity
from cluster.zookeeper.quota_znodes import CONNECTION_RATE, decode_name, entity_of, read_number, read_quotas
from cluster.zookeeper.znodes import CLIENTS, IPS, USERS

if TYPE_CHECKING:
    import trio

    from cluster.broker.live_configuration import LiveConfiguration
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.handlers.context import BrokerContext
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.network.connection_limits import ConnectionLimits
    from cluster.network.connection_quotas import ConnectionQuotas
    from timing.clock import Clock
    from timing.timing_wheel import Timer

logger = logging.getLogger(__name__)


def client_quotas(config: "BrokerConfig") -> ClientQuotas:
    """Make the quotas of a broker's clients; none is set yet."""
    return ClientQuotas(
        config.quota_window_num,
        config.quota_window_size_seconds * 1000,
        config.controller_quota_window_num,
        config.controller_quota_window_size_seconds * 1000,
    )


class LiveQuotas:
    """Keeps quotas as the configurations of users, clients and addresses have them.

    Requests are charged only while at least one client has a quota.

    Args:
        quotas: The quotas of clients.
        limits: Looks up the hosts whose limits are given by host name.
    """

    def __init__(self, quotas: ClientQuotas, limits: "ConnectionLimits") -> None:
        self.quotas = quotas
        self._limits = limits
        self._context: BrokerContext | None = None
        self._throttling: Throttling | None = None
        self._rates: dict[Name, int] = {}
        self._on_rates: Callable[[], None] | None = None

    def follow(self, live: "LiveConfiguration") -> None:
        """Follow every quota that the live configuration reads, from its next load on."""
        for entity_type in (USERS, CLIENTS):
            live.follow_entities(entity_type, partial(self._clients_changed, entity_type))
        live.follow_entities(IPS, self._addresses_changed)

    def attach(
        self,
        context: "BrokerContext",
        connections: "ConnectionQuotas",
        clock: "Clock",
        timer: "Timer",
        nursery: "trio.Nursery",
    ) -> None:
        """Enforce the quotas, now that there are requests and connections."""
        self._context = context
        self._throttling = Throttling(self.quotas, clock, timer)

        def apply() -> None:
            nursery.start_soon(self._apply_rates, connections, name="connection rates of addresses")

        self._on_rates = apply
        self._switch()
        apply()

    def add_probes(self, metrics: "BrokerMetrics") -> None:
        """Add how often and how long clients are throttled to the metrics."""
        by_type = self.quotas.by_type
        metrics.probe(
            "kafka_server_clientquotas_throttled",
            lambda: {(kind.value,): quota.throttled for kind, quota in by_type.items()},
        )
        metrics.probe(
            "kafka_server_clientquotas_throttledseconds",
            lambda: {(kind.value,): quota.throttled_ms / 1000 for kind, quota in by_type.items()},
        )

    def _clients_changed(
        self, entity_type: str, configs: Mapping[str, Mapping[str, str]], complete: bool
    ) -> None:
        changed = {
            entity_of(entity_type, path): read_quotas(f"{entity_type}/{path}", config)
            for path, config in configs.items()
        }
        if complete:
            gone = {each for each in self.quotas.entities() if _is_of(entity_type, each)} - changed.keys()
            changed |= {entity: {} for entity in gone}
        for entity, limits in changed.items():
            self.quotas.set_limits(entity, limits)
        self._switch()

    def _addresses_changed(self, configs: Mapping[str, Mapping[str, str]], complete: bool) -> None:
        if complete:
            self._rates.clear()
        for path, config in configs.items():
            limit = read_number(f"{IPS}/{path}", CONNECTION_RATE, config)
            if limit is None:
                self._rates.pop(decode_name(path), None)
            else:
                self._rates[decode_name(path)] = int(limit)
        if self._on_rates is not None:
            self._on_rates()

    async def _apply_rates(self, connections: "ConnectionQuotas") -> None:
        """Look up the hosts that are given by name, and enforce the limits."""
        found: dict[str | None, int] = {}
        for host, limit in tuple(self._rates.items()):
            if host is DEFAULT or host is None:
                found[None] = limit
                continue
            try:
                for address in await self._limits.addresses(str(host)):
                    found[address] = limit
            except AddressLimitError as error:
                logger.warning("the connection rate of an address has no effect: %s", error)
        connections.address_limits = found

    def _switch(self) -> None:
        if self._context is not None:
            self._context.throttling = self._throttling if self.quotas.is_on else None


def _is_of(entity_type: str, entity: QuotaEntity) -> bool:
    return (entity.user is None) is (entity_type == CLIENTS)
