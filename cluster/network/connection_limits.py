"""Keeps a broker's connection quotas as its configuration has them, even if it changes while the broker runs."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from cluster.configuration.errors import ConfigError
from cluster.network.address_limits import AddressLimitError, LookUp, look_up, resolve_address_limits
from cluster.network.connection_quotas import ConnectionQuotas

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

ADDRESS_LIMITS: Final = "max.connections.per.ip.overrides"

Offload = Callable[[Callable[[], Mapping[str, int]]], Awaitable[Mapping[str, int]]]
"""Runs something slow beside the loop."""


class ConnectionLimits:
    """Keeps connection quotas in line with a configuration.

    Args:
        config: The settings.
        offload: Looks hosts up beside the loop.
        look_up: Returns a host's addresses.

    Attributes:
        by_address: The limits of single addresses, once `resolve` has been awaited.
    """

    def __init__(self, config: "BrokerConfig", offload: Offload, look_up: LookUp = look_up) -> None:
        self.by_address: Mapping[str, int] = {}
        self._config = config
        self._offload = offload
        self._look_up = look_up

    async def check(self, text: str) -> Mapping[str, int]:
        """Look up every host of a value of ``max.connections.per.ip.overrides``, and return the limits.

        Raises:
            ConfigError: it is malformed, or a host is not known.
        """
        try:
            return await self._offload(partial(resolve_address_limits, text, self._look_up))
        except AddressLimitError as error:
            raise ConfigError(ADDRESS_LIMITS, text, f"another value: {error}") from None

    async def addresses(self, host: str) -> Collection[str]:
        """Return the addresses of a host, which may be given as an address.

        Raises:
            AddressLimitError: the host is unknown.
        """
        return tuple(await self._offload(partial(resolve_address_limits, f"[{host}]:0", self._look_up)))

    async def resolve(self) -> None:
        """Look up every host that has a limit of its own; if cancelled or failing, the previous limits stay.

        Raises:
            ConfigError: the setting is malformed, or a host is not known.
        """
        if self._config.max_connections_per_ip_overrides:
            self.by_address = await self.check(self._config.max_connections_per_ip_overrides)
        else:
            self.by_address = {}

    def quotas(
        self,
        listener_names: tuple[str, ...],
        inter_broker_listener: str,
        control_plane_listener: str | None,
        nursery: trio.Nursery,
    ) -> ConnectionQuotas:
        """Return the quotas, which follow the configuration from then on.

        Args:
            listener_names: The listeners there are.
            inter_broker_listener: The one that brokers use among themselves.
            control_plane_listener: The one that the controller sends its requests to, if it has its own.
            nursery: Where hosts are looked up when the setting changes.
        """
        quotas = ConnectionQuotas(
            listener_names,
            inter_broker_listener=inter_broker_listener,
            control_plane_listener=control_plane_listener,
            rate_windows=self._config.quota_window_num,
            rate_window_s=self._config.quota_window_size_seconds,
        )

        async def look_up_again() -> None:
            try:
                await self.resolve()
            except ConfigError as error:
                logger.error("the limits of single addresses stay as they were: %s", error)
            quotas.per_address_overrides = dict(self.by_address)

        def changed(names: frozenset[str]) -> None:
            self._set(quotas, listener_names)
            if ADDRESS_LIMITS in names:
                nursery.start_soon(look_up_again, name="connection limits of hosts")

        self._set(quotas, listener_names)
        quotas.per_address_overrides = dict(self.by_address)
        self._config.on_change(changed)
        return quotas

    def _set(self, quotas: ConnectionQuotas, listener_names: tuple[str, ...]) -> None:
        config = self._config
        quotas.connections_max = config.max_connections
        quotas.per_address_max = config.max_connections_per_ip
        quotas.creation_rate.limit = config.max_connection_creation_rate
        for name in listener_names:
            quotas.per_listener_max[name] = config.number_of_listener(name, "max.connections")
            quotas.listener_rates[name].limit = config.number_of_listener(
                name, "max.connection.creation.rate"
            )
        quotas.limits_changed()
