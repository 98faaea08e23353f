"""A hierarchical timing wheel: very many timers, nearly all of which are cancelled before they expire.

Level n has buckets of 20**n milliseconds, 20 of them ahead of now. A timer goes into the bucket of the lowest
level that reaches its deadline, so that adding and cancelling cost one dictionary operation each. When a
bucket's range begins, its timers move down a level, or expire: every timer expires in the millisecond that it
asked for, never before.

After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987), in the variant that Kafka's
purgatory uses (buckets, not timers, are in a priority queue, so that time jumps over empty ones). Ours keeps buckets
in a dictionary by their absolute start instead of in rings: a wheel that nobody turned for an hour needs no catching
up, and a bucket is never mistaken for the one a rotation later.

`TimingWheel` is pure: the caller says what time it is. `Timer` is the trio shell around it.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NoReturn

import trio

WHEEL_SIZE: Final = 20
"""Buckets a level spans."""
SPANS_MS: Final[tuple[int, ...]] = tuple(WHEEL_SIZE**level for level in range(1, 9))
"""How far each level reaches; the last reaches 296 days, and holds later timers too."""
TOP_LEVEL: Final = len(SPANS_MS) - 1
EXPIRED_AT_ONCE: Final = 256
"""Timers expired before other tasks get their turn."""


class TimerEntry:
    """An action at a deadline, unless cancelled; it is in at most one wheel.

    Attributes:
        deadline_ms: When, on the wheel's clock.
    """

    __slots__ = ("_bucket", "deadline_ms")

    def __init__(self) -> None:
        self._bucket: _Bucket | None = None
        self.deadline_ms = 0

    @property
    def is_pending(self) -> bool:
        """Whether it has neither expired nor been cancelled."""
        return self._bucket is not None

    def expire(self) -> None:
        """Act on the deadline. Called at most once, synchronously, from the broker's loop."""


class CallTimer(TimerEntry):
    """A timer that makes one call when its time comes."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def expire(self) -> None:
        self._call()


_Bucket = dict[TimerEntry, None]
"""The timers of one bucket in the order in which they were added (a set would lose it, and a run its repeatability)."""


class TimingWheel:
    """Timers ordered by deadline, to the millisecond; those of one bucket in the order in which they were added."""

    __slots__ = ("_buckets", "_due", "_pending", "_starts")

    def __init__(self) -> None:
        self._due: _Bucket = {}
        self._buckets: dict[tuple[int, int], _Bucket] = {}
        self._starts: list[tuple[int, int]] = []
        self._pending = 0

    def __len__(self) -> int:
        """How many timers are pending."""
        return self._pending

    def add(self, entry: TimerEntry, deadline_ms: int, now_ms: int) -> int:
        """Schedule `entry` for a deadline.

        Args:
            entry: What expires; it must not be pending.
            deadline_ms: When. A time that has passed is due with the next `advance`.
            now_ms: The time now, which decides how coarse the bucket can be.

        Returns:
            The latest time to advance the wheel for this entry; never after its deadline.

        Raises:
            ValueError: the entry is pending.
        """
        if entry._bucket is not None:
            raise ValueError("the entry is in a wheel already")
        entry.deadline_ms = deadline_ms
        self._pending += 1
        return self._place(entry, deadline_ms, now_ms)

    def cancel(self, entry: TimerEntry) -> bool:
        """Forget an entry; False if it was not pending."""
        bucket = entry._bucket
        if bucket is None:
            return False
        entry._bucket = None
        del bucket[entry]
        self._pending -= 1
        return True

    def next_look_ms(self) -> int | None:
        """Return when `advance` has something to do next; None where nothing is pending."""
        starts = self._starts
        buckets = self._buckets
        if not self._pending:
            starts.clear()
            buckets.clear()
            return None
        while starts:
            key = starts[0]
            if buckets[key]:
                return key[0]
            # Everything in it was cancelled.
            heappop(starts)
            del buckets[key]
        return None

    def advance(self, now_ms: int) -> None:
        """Make expired entries due, in the order of deadlines, and move the others of their buckets to finer ones."""
        due: list[TimerEntry] = []
        starts = self._starts
        while starts and starts[0][0] <= now_ms:
            bucket = self._buckets.pop(heappop(starts))
            for entry in bucket:
                if entry.deadline_ms <= now_ms:
                    due.append(entry)
                else:
                    self._place(entry, entry.deadline_ms, now_ms)
        due.sort(key=_deadline)
        for entry in due:
            entry._bucket = self._due
            self._due[entry] = None

    def take_due(self) -> TimerEntry | None:
        """Take the next entry that is due out of the wheel; until taken it can be cancelled."""
        for entry in self._due:
            self.cancel(entry)
            return entry
        return None

    def _place(self, entry: TimerEntry, deadline_ms: int, now_ms: int) -> int:
        left = deadline_ms - now_ms
        level = 0
        while level < TOP_LEVEL and left >= SPANS_MS[level]:
            level += 1
        tick = SPANS_MS[level] // WHEEL_SIZE
        start = deadline_ms - deadline_ms % tick
        key = (start, level)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = {}
            heappush(self._starts, key)
        bucket[entry] = None
        entry._bucket = bucket
        return start


def _deadline(entry: TimerEntry) -> int:
    return entry.deadline_ms


class Timer:
    """A timing wheel on trio's clock. Idle, it sleeps until something is added.

    `add` and `cancel` are synchronous and called from the trio thread; `run` is one task of the broker.
    Timers added before `run` begins expire once it has.
    """

    __slots__ = ("_look_ms", "_scope", "_wheel")

    def __init__(self) -> None:
        self._wheel = TimingWheel()
        self._look_ms: float = math.inf
        self._scope: trio.CancelScope | None = None

    def __len__(self) -> int:
        """How many timers are pending."""
        return len(self._wheel)

    def add(self, entry: TimerEntry, delay_ms: float) -> None:
        """Schedule `entry` to expire after `delay_ms` milliseconds; with zero or less, in the next pass of the loop.

        Raises:
            ValueError: the entry is pending.
        """
        now = trio.current_time() * 1000
        look_ms = self._wheel.add(entry, math.ceil(now + delay_ms), int(now))
        if look_ms < self._look_ms:
            self._look_ms = look_ms
            if self._scope is not None:
                self._scope.deadline = look_ms / 1000

    def cancel(self, entry: TimerEntry) -> bool:
        """Forget an entry; False if it was not pending."""
        return self._wheel.cancel(entry)

    async def run(self) -> NoReturn:
        """Expire entries as their time comes, for ever. Cancelled, it leaves the rest pending.

        An exception of an entry's `expire` ends it: such a bug must stop the broker.
        """
        while True:
            with trio.CancelScope(deadline=self._look_ms / 1000) as self._scope:
                await trio.sleep_forever()
            # Rounding may put the deadline that has passed just before its millisecond.
            now_ms = max(math.floor(trio.current_time() * 1000), int(self._look_ms))
            self._wheel.advance(now_ms)
            count = 0
            while (entry := self._wheel.take_due()) is not None:
                entry.expire()
                count += 1
                if count % EXPIRED_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
            look_ms = self._wheel.next_look_ms()
            self._look_ms = math.inf if look_ms is None else look_ms
