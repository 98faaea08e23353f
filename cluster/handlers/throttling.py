"""Applies client quotas: charges requests, and throttles clients that are over quota (KIP-219).

The answer leaves at once and says for how long the client is throttled; until then the broker begins no further request
of its connection, whatever the client does. A Produce is charged the size of its request when it is begun, a consumer's
Fetch the size of its answer before that is sent; every request is charged its handling time, as a percentage of this
broker's one thread. Requests among brokers are exempt.
"""

from typing import TYPE_CHECKING, Final, Protocol

from timing.timing_wheel import TimerEntry
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.network.response_slot import AskingConnection, ResponseSlot
    from cluster.replication.leader.fetch_session import FetchItem
    from cluster.security.principal import KafkaPrincipal
    from cluster.security.quotas.client_quotas import ClientQuotas
    from timing.clock import Clock
    from timing.timing_wheel import Timer
    from wire.frames import RequestHeader
    from wire.messages.fetch import PartitionData

EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
    }
)
"""Requests of brokers that are exempt from the request quota, if their sender is authorized."""
_PER_CENT: Final = 100
_FRAME_OVERHEAD: Final = 32
_PARTITION_OVERHEAD: Final = 64
"""The approximate bytes of a partition in a Fetch answer besides its records."""


class ChargedCall(Protocol):
    """The attributes of a request that the quotas read and set; `ApiCall` describes each."""

    header: "RequestHeader"
    slot: "ResponseSlot"
    throttle_ms: int
    came_s: float | None
    handling_s: float | None
    is_exempt: bool

    @property
    def principal(self) -> "KafkaPrincipal":
        """The identity that sent the request."""
        ...


class _Unmute(TimerEntry):
    """Resumes a connection when its throttle time is over."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "AskingConnection") -> None:
        super().__init__()
        self._connection = connection

    def expire(self) -> None:
        """Resume the connection."""
        self._connection.unmute()


class Throttling:
    """Charges requests to their clients' quotas.

    Args:
        quotas: The quotas.
        clock: Measures the time that requests take.
        timer: Resumes throttled connections.
    """

    __slots__ = ("_clock", "_timer", "quotas")

    def __init__(self, quotas: "ClientQuotas", clock: "Clock", timer: "Timer") -> None:
        self.quotas = quotas
        self._clock = clock
        self._timer = timer

    def begin(self, call: "ChargedCall", size: int) -> None:
        """Note when a request arrived, and charge a Produce.

        Args:
            call: The request.
            size: The bytes of its whole frame.
        """
        call.came_s = self._clock.monotonic()
        if call.header.api_key == ApiKey.PRODUCE:
            self._hold(
                call,
                self.quotas.produce.record(
                    call.principal.name, call.header.client_id or "", size, self._now_ms()
                ),
            )

    def begun(self, call: "ChargedCall") -> None:
        """Note that a handler has returned: later work is not charged as the client's time."""
        if call.came_s is not None:
            call.handling_s = self._clock.monotonic() - call.came_s

    def charge(self, call: "ChargedCall") -> int:
        """Charge the time that a request took, and return for how many milliseconds its client is throttled."""
        if call.came_s is None or call.is_exempt:
            return call.throttle_ms
        spent_s = self._clock.monotonic() - call.came_s if call.handling_s is None else call.handling_s
        call.came_s = None
        per_cent = spent_s * _PER_CENT
        client_id = call.header.client_id or ""
        throttle_ms = self.quotas.request.record(call.principal.name, client_id, per_cent, self._now_ms())
        self._hold(call, throttle_ms)
        return call.throttle_ms

    def admit_fetch(self, call: "ChargedCall", answers: "Sequence[tuple[FetchItem, PartitionData]]") -> bool:
        """Charge a consumer's Fetch for its answer; return False if the client is throttled and gets an empty one."""
        size = _FRAME_OVERHEAD + sum(
            _PARTITION_OVERHEAD + (len(data.records) if data.records is not None else 0)
            for _, data in answers
        )
        user, client_id = call.principal.name, call.header.client_id or ""
        now_ms = self._now_ms()
        throttle_ms = self.quotas.fetch.record(user, client_id, size, now_ms)
        request_ms = self.charge(call)
        self._hold(call, throttle_ms)
        if not (throttle_ms or request_ms):
            return True
        self.quotas.fetch.take_back(user, client_id, size, now_ms)
        return False

    def fetch_burst(self, call: "ChargedCall") -> float:
        """Return the most bytes that one answer to this consumer may have."""
        return self.quotas.fetch.burst(call.principal.name, call.header.client_id or "")

    def mutation_exceeded_ms(self, call: "ChargedCall") -> int:
        """Return for how many milliseconds this client must not create or remove partitions; 0 if it may."""
        return self.quotas.mutation.exceeded_ms(
            call.principal.name, call.header.client_id or "", self._now_ms()
        )

    def record_mutations(self, call: "ChargedCall", count: int) -> None:
        """Charge partitions that are created or removed; a negative count takes a charge back."""
        self.quotas.mutation.record(call.principal.name, call.header.client_id or "", count, self._now_ms())

    def hold_for_mutations(self, call: "ChargedCall") -> None:
        """Throttle a client that is over its quota of partitions."""
        self._hold(call, self.quotas.mutation.note(self.mutation_exceeded_ms(call)))

    def _hold(self, call: "ChargedCall", throttle_ms: int) -> None:
        """Throttle the client of a request for the longest time that its quotas demand."""
        if throttle_ms <= call.throttle_ms:
            return
        call.throttle_ms = throttle_ms
        connection = call.slot.connection
        connection.mute()
        self._timer.add(_Unmute(connection), throttle_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
