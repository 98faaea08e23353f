"""The cluster's state, kept fresh while pages are looked at.

Rules of this file:

- Pages are rendered from the newest look, not each from its own: with ten thousand partitions one look takes longer
  than a page may. While pages are requested, the cluster is looked at repeatedly, with pauses that are a multiple of
  the time that a look takes.
- What a person has just changed must be seen: `look_again` waits for a look that began after it.
"""

from collections import deque
from typing import Final

import trio

from ottla.web.answers import CALL_TIMEOUT_S, attempt
from ottla.web.connection import ClusterConnection, NotConnected
from ottla.web.models.happenings import Happening, happenings
from ottla.web.models.overview import Overview, overview
from timing.clock import Clock

PAUSE_S: Final = 1.0
PAUSE_COSTS: Final = 8
"""A pause is at least this many times as long as the look before it."""
LOOKING_S: Final = 20.0
"""For how many seconds after the last page the cluster is still looked at."""
STALE_S: Final = 5.0
_HAPPENINGS_MAX: Final = 60


class ClusterWatch:
    """Looks at the cluster in `run`; the other methods return what was seen.

    Args:
        connection: The client.
        clock: The time.

    Attributes:
        problem: Why the last look failed; None where it did not.
        happenings: What has changed since the page was started, the newest first.
    """

    def __init__(self, connection: ClusterConnection, clock: Clock) -> None:
        self.problem: str | None = None
        self.happenings: deque[Happening] = deque(maxlen=_HAPPENINGS_MAX)
        self._connection = connection
        self._clock = clock
        self._seen: Overview | None = None
        self._seen_at = float("-inf")
        self._asked_at = float("-inf")
        self._wake = trio.Event()
        self._looked = trio.Event()
        self._begun = self._finished = 0

    @property
    def age_s(self) -> float:
        """How long ago the cluster was seen."""
        return self._clock.monotonic() - self._seen_at

    @property
    def seen(self) -> Overview | None:
        """The newest look, however old; None where there was none."""
        return self._seen

    @property
    def is_looked_at(self) -> bool:
        """Whether a page was asked for not long ago."""
        return self._clock.monotonic() - self._asked_at <= LOOKING_S

    async def current(self) -> Overview:
        """Return the last look; if it is old, wait for a new one, within a time.

        Raises:
            NotConnected: The cluster has never been seen.
        """
        was_asleep = not self.is_looked_at
        self._asked_at = self._clock.monotonic()
        if was_asleep:
            self._wake.set()
        if self._seen is None or self.age_s > STALE_S:
            with trio.move_on_after(CALL_TIMEOUT_S if self._seen is None else STALE_S):
                await self._looked.wait()
        if self._seen is None:
            raise NotConnected(self.problem or "the cluster has not been reached yet")
        return self._seen

    async def look_again(self) -> Overview:
        """Return the result of a look that begins now; raises as `current`."""
        after = self._begun + 1
        with trio.move_on_after(CALL_TIMEOUT_S):
            while self._finished < after:
                self._asked_at = self._clock.monotonic()
                self._wake.set()
                await self._looked.wait()
        return await self.current()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._pause(max(PAUSE_S, PAUSE_COSTS * await self._look()))

    async def _pause(self, seconds: float) -> None:
        """Wait some seconds, or, while no page is looked at, until woken."""
        with trio.move_on_after(seconds):
            await self._wake.wait()
        if not self.is_looked_at:
            await self._wake.wait()
        self._wake = trio.Event()

    async def _look(self) -> float:
        """Look once, and return how long it took."""
        self._begun += 1
        number, began = self._begun, self._clock.monotonic()
        found = await attempt(self._ask)
        self.problem = found.problem
        if found.value is not None:
            if self._seen is not None:
                self.happenings.extendleft(reversed(happenings(self._seen, found.value)))
            self._seen, self._seen_at = found.value, self._clock.monotonic()
        self._finished = number
        looked, self._looked = self._looked, trio.Event()
        looked.set()
        return self._clock.monotonic() - began

    async def _ask(self) -> Overview:
        admin = self._connection.admin
        topics = await admin.describe_topics(None)
        return overview(await admin.refresh(), topics, self._clock.wall_ms())
