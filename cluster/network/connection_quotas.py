"""How many connections a broker takes: in all, by listener, by address (Kafka's ``max.connections*``).

Over an address's limit a new connection is closed. Over the broker's or a listener's limit nothing more is accepted
until a connection closes, and over a limit on the rate of new connections (KIP-612) nothing for a while. The
inter-broker listener, if it is not the only one, and the controller's are exempt from the broker's limits: for a
connection that they accept beyond the limit on the number, the longest idle one of another listener is closed.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from cluster.network.creation_rate import NO_LIMIT, CreationRate
from cluster.security.quotas.meters import RateMeter

ADDRESS_RATES_MAX: Final = 10_000
"""How many addresses' rates of new connections are measured; the least recently seen are dropped."""


class TooManyConnectionsError(Exception):
    """An address has as many connections as it is allowed.

    Attributes:
        limit: How many it is allowed.
    """

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"{address} has {limit} connections, which is its limit")
        self.limit = limit


class ConnectionQuotas:
    """Counts of connections against their limits, over all listeners of one broker.

    Args:
        listener_names: The listeners there are.
        inter_broker_listener: The one that brokers use among themselves, if it is protected.
        control_plane_listener: The one that the controller sends its requests to, if it has its own.
        connections_max: ``max.connections``.
        per_address_max: ``max.connections.per.ip``.
        per_address_overrides: Limits of single addresses; they take precedence.
        per_listener_max: ``listener.name.<name>.max.connections``.
        rate_windows: ``quota.window.num``: how many windows the rate of new connections is taken over.
        rate_window_s: ``quota.window.size.seconds``.

    Attributes:
        creation_rate: The limit of all listeners but the protected ones; ``max.connection.creation.rate``.
        address_limits: Connections a second of single addresses; None is the default for those without their own.
        listener_rates: The limit of each listener; ``listener.name.<name>.max.connection.creation.rate``.
        rested_s: For how many seconds, in total, accepting was paused, by listener.

    The limits are plain attributes, so that a dynamic configuration can change them; `limits_changed` is to
    be called afterwards.
    """

    __slots__ = (
        "_address_rates",
        "_by_address",
        "_by_listener",
        "_protected",
        "_rate_samples",
        "_rate_window_ms",
        "_rest_until",
        "_waiting",
        "address_limits",
        "connections_max",
        "creation_rate",
        "listener_rates",
        "per_address_max",
        "per_address_overrides",
        "per_listener_max",
        "rested_s",
        "total",
    )

    def __init__(
        self,
        listener_names: tuple[str, ...],
        *,
        inter_broker_listener: str | None = None,
        control_plane_listener: str | None = None,
        connections_max: int = NO_LIMIT,
        per_address_max: int = NO_LIMIT,
        per_address_overrides: Mapping[str, int] | None = None,
        per_listener_max: Mapping[str, int] | None = None,
        rate_windows: int = 11,
        rate_window_s: float = 1.0,
    ) -> None:
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.per_address_overrides = dict(per_address_overrides or {})
        self.per_listener_max = dict(per_listener_max or {})
        self.creation_rate = CreationRate(rate_windows, rate_window_s)
        self.listener_rates = {name: CreationRate(rate_windows, rate_window_s) for name in listener_names}
        self.address_limits: dict[str | None, int] = {}
        self._rate_samples = rate_windows
        self._rate_window_ms = int(rate_window_s * 1000)
        self._address_rates: OrderedDict[str, RateMeter] = OrderedDict()
        self.rested_s = dict.fromkeys(listener_names, 0.0)
        self.total = 0
        self._rest_until = dict.fromkeys(listener_names, 0.0)
        self._by_address: dict[str, int] = {}
        self._by_listener = dict.fromkeys(listener_names, 0)
        self._protected: frozenset[str | None] = frozenset()
        if len(self._by_listener) > 1:
            self._protected = frozenset({inter_broker_listener, control_plane_listener})
        self._waiting: list[Callable[[], None]] = []

    def count_of(self, address: str) -> int:
        """How many connections an address has now."""
        return self._by_address.get(address, 0)

    def counts_by_listener(self) -> dict[tuple[str, ...], float]:
        """Return how many connections each listener has now, by label values."""
        return {(name,): count for name, count in self._by_listener.items()}

    def rests_by_listener(self) -> dict[tuple[str, ...], float]:
        """Return for how many seconds each listener was paused, by label values."""
        return {(name,): rested_s for name, rested_s in self.rested_s.items()}

    def rest_s(self, listener_name: str, now_s: float) -> float:
        """Return for how many seconds a listener is to accept nothing, because connections came too fast."""
        return max(self._rest_until[listener_name] - now_s, 0.0)

    def has_slot(self, listener_name: str) -> bool:
        """Whether a listener may accept one more connection."""
        listener_max = self.per_listener_max.get(listener_name, NO_LIMIT)
        if self._by_listener.get(listener_name, 0) >= listener_max:
            return False
        return listener_name in self._protected or self.total < self.connections_max

    def is_over_total(self, listener_name: str) -> bool:
        """Whether a connection of another listener has to be closed for the one just accepted."""
        return listener_name in self._protected and self.total > self.connections_max

    def is_protected(self, listener_name: str) -> bool:
        """Whether a listener's connections are never closed for the sake of others."""
        return listener_name in self._protected

    def address_throttle_s(self, address: str, now_s: float) -> float:
        """Count a connection for its address, and return for how many seconds it is to be held unread, then closed.

        Args:
            address: Whose it is.
            now_s: Monotonic time, in seconds.

        Returns:
            0 for a connection that is to be served.
        """
        limits = self.address_limits
        if not limits:
            return 0.0
        limit = limits.get(address, limits.get(None))
        if limit is None:
            return 0.0
        rates, now_ms = self._address_rates, int(now_s * 1000)
        meter = rates.pop(address, None) or RateMeter(self._rate_samples, self._rate_window_ms)
        rates[address] = meter
        if len(rates) > ADDRESS_RATES_MAX:
            rates.popitem(last=False)
        if limit <= 0:
            return self._rate_window_ms / 1000
        meter.record(1, now_ms)
        throttle_ms = min(meter.excess_ms(limit, now_ms), self._rate_window_ms)
        if throttle_ms > 0:
            meter.record(-1, now_ms)  # what is not served does not count
        return throttle_ms / 1000

    def take(self, listener_name: str, address: str, now_s: float) -> None:
        """Count a connection.

        Args:
            listener_name: Where it came in.
            address: Whose it is.
            now_s: Monotonic time, in seconds.

        Raises:
            TooManyConnectionsError: the address is at its limit; the connection counts towards the rate of new
                connections, and nothing else.
        """
        rest_s = self.listener_rates[listener_name].record(now_s)
        if listener_name not in self._protected:
            rest_s = max(rest_s, self.creation_rate.record(now_s))
        if rest_s > 0:
            self._rest_until[listener_name] = now_s + rest_s
            self.rested_s[listener_name] += rest_s
        count = self._by_address.get(address, 0)
        limit = self.per_address_overrides.get(address, self.per_address_max)
        if count >= limit:
            raise TooManyConnectionsError(address, limit)
        self._by_address[address] = count + 1
        self._by_listener[listener_name] = self._by_listener.get(listener_name, 0) + 1
        self.total += 1

    def give_back(self, listener_name: str, address: str) -> None:
        """Count a connection out, and wake the listeners that wait for a slot."""
        count = self._by_address[address]
        if count == 1:
            del self._by_address[address]
        else:
            self._by_address[address] = count - 1
        self._by_listener[listener_name] -= 1
        self.total -= 1
        self.limits_changed()

    def call_when_slot(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, once, when a connection has closed or a limit has changed."""
        self._waiting.append(callback)

    def limits_changed(self) -> None:
        """Wake the listeners that wait for a slot: there may be one."""
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
