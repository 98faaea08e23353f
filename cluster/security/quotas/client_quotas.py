"""The quotas of a broker's clients, how much of them is used, and for how long a client is throttled.

Each of the four types is independent: a quota for produce does not affect fetch. Clients that share a quota share one
meter, on this broker alone. Unused meters are dropped when they are too many or too old: a stranger can invent client
ids.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

from cluster.security.quotas.entities import Grant, QuotaEntity, grant
from cluster.security.quotas.meters import MS_PER_S, RateMeter, TokenBucket

METERS_MAX: Final = 10_000
"""How many clients' meters a type of quota keeps."""
METER_UNUSED_MS: Final = 60 * 60 * 1000
"""How long an unused meter is kept."""
GRANTS_MAX: Final = 10_000

_Meter = TypeVar("_Meter", RateMeter, TokenBucket)


class QuotaType(Enum):
    """A type of quota; the value is its key in configurations."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


class _Metered(Generic[_Meter]):
    """The quotas of one type, and the meters of those that use them."""

    def __init__(self, make_meter: Callable[[], _Meter]) -> None:
        self.limits: dict[QuotaEntity, float] = {}
        self.throttled = 0
        self.throttled_ms = 0
        self._make_meter: Callable[[], _Meter] = make_meter
        self._grants: dict[tuple[str, str], Grant | None] = {}
        self._meters: OrderedDict[QuotaEntity, tuple[_Meter, int]] = OrderedDict()

    def set_limit(self, entity: QuotaEntity, limit: float | None) -> None:
        """Set or remove a quota; meters stay, so that a change forgives no use."""
        if limit is None:
            self.limits.pop(entity, None)
        else:
            self.limits[entity] = limit
        self._grants.clear()

    def grant_of(self, user: str, client_id: str) -> Grant | None:
        """Return the quota that applies to a client; None if none does."""
        key = (user, client_id)
        try:
            return self._grants[key]
        except KeyError:
            pass
        if len(self._grants) >= GRANTS_MAX:
            self._grants.clear()
        found = self._grants[key] = grant(self.limits, user, client_id)
        return found

    def meter_of(self, shared_by: QuotaEntity, now_ms: int) -> _Meter:
        """Return the meter of the clients that share a quota."""
        meters = self._meters
        found = meters.pop(shared_by, None)
        meter = self._make_meter() if found is None else found[0]
        meters[shared_by] = (meter, now_ms)
        if found is None:
            oldest = next(iter(meters))
            if len(meters) > METERS_MAX or now_ms - meters[oldest][1] > METER_UNUSED_MS:
                del meters[oldest]
        return meter

    def note(self, throttle_ms: int) -> int:
        """Count a throttled client, for the metrics; return the time unchanged."""
        if throttle_ms > 0:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


class RateQuota(_Metered[RateMeter]):
    """A type of quota that is a rate.

    Args:
        samples: `quota.window.num`.
        window_ms: `quota.window.size.seconds`.
        throttle_ms_max: The longest time that a client is throttled at once; None for no limit.
    """

    def __init__(self, samples: int, window_ms: int, throttle_ms_max: int | None = None) -> None:
        super().__init__(lambda: RateMeter(samples, window_ms))
        self._samples = samples
        self._window_ms = window_ms
        self._throttle_ms_max = throttle_ms_max

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count what a client used, and return for how many milliseconds it is to be throttled."""
        found = self.grant_of(user, client_id)
        if found is None:
            return 0
        limit, shared_by = found
        meter = self.meter_of(shared_by, now_ms)
        meter.record(value, now_ms)
        if limit <= 0:
            return self.note(self._window_ms)
        throttle_ms = meter.excess_ms(limit, now_ms)
        if self._throttle_ms_max is not None:
            throttle_ms = min(throttle_ms, self._throttle_ms_max)
        return self.note(throttle_ms)

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Undo `record`: what was counted was not sent after all."""
        found = self.grant_of(user, client_id)
        if found is not None:
            self.meter_of(found.shared_by, now_ms).record(-value, now_ms)

    def burst(self, user: str, client_id: str) -> float:
        """Return the most that fits into a client's quota at once; infinite without a quota."""
        found = self.grant_of(user, client_id)
        if found is None:
            return math.inf
        return max(found.limit, 0) * (self._samples - 1) * self._window_ms / MS_PER_S


class MutationQuota(_Metered[TokenBucket]):
    """The quota of partitions created and deleted (KIP-599), which is a token bucket.

    Args:
        samples: `controller.quota.window.num`.
        window_ms: `controller.quota.window.size.seconds`.
    """

    def __init__(self, samples: int, window_ms: int) -> None:
        super().__init__(lambda: TokenBucket(samples, window_ms))
        self._window_ms = window_ms

    def exceeded_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """Return for how many milliseconds a client is to be throttled; 0 while it may go on."""
        found = self.grant_of(user, client_id)
        if found is None:
            return 0
        if found.limit <= 0:
            return self._window_ms
        return self.meter_of(found.shared_by, now_ms).overdrawn_ms(found.limit, now_ms)

    def record(self, user: str, client_id: str, count: int, now_ms: int) -> None:
        """Count partitions; a negative count returns some."""
        found = self.grant_of(user, client_id)
        if found is not None and found.limit > 0:
            self.meter_of(found.shared_by, now_ms).take(count, found.limit, now_ms)


class ClientQuotas:
    """The quotas of a broker's clients, by type.

    Args:
        samples: `quota.window.num`.
        window_ms: `quota.window.size.seconds`, in milliseconds.
        mutation_samples: `controller.quota.window.num`.
        mutation_window_ms: `controller.quota.window.size.seconds`, in milliseconds.
    """

    def __init__(self, samples: int, window_ms: int, mutation_samples: int, mutation_window_ms: int) -> None:
        self.produce = RateQuota(samples, window_ms)
        self.fetch = RateQuota(samples, window_ms)
        self.request = RateQuota(samples, window_ms, throttle_ms_max=window_ms)
        self.mutation = MutationQuota(mutation_samples, mutation_window_ms)
        self.by_type: Mapping[QuotaType, RateQuota | MutationQuota] = {
            QuotaType.PRODUCE: self.produce,
            QuotaType.FETCH: self.fetch,
            QuotaType.REQUEST: self.request,
            QuotaType.CONTROLLER_MUTATION: self.mutation,
        }

    @property
    def is_on(self) -> bool:
        """Whether any quota of any type is set for anybody."""
        return any(each.limits for each in self.by_type.values())

    def set_limits(self, entity: QuotaEntity, limits: Mapping[QuotaType, float]) -> None:
        """Replace the quotas of an entity; a type that is left out has none."""
        for kind, quota in self.by_type.items():
            quota.set_limit(entity, limits.get(kind))

    def entities(self) -> set[QuotaEntity]:
        """Return the entities that have a quota of any type."""
        return {entity for quota in self.by_type.values() for entity in quota.limits}
