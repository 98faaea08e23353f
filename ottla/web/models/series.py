"""Values over time: bounded histories, their rates, and the points of a small chart."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

POINTS_MAX: Final = 240


class Series:
    """The last values of something, with their times.

    Args:
        points_max: How many are kept.
    """

    __slots__ = ("_points",)

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=points_max)

    def __len__(self) -> int:
        return len(self._points)

    def add(self, at: float, value: float) -> None:
        """Add a value; of several for one moment the last counts."""
        if self._points and self._points[-1][0] >= at:
            self._points.pop()
        self._points.append((at, value))

    @property
    def points(self) -> Sequence[tuple[float, float]]:
        """The moments and values, the oldest first."""
        return self._points

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self._points[-1][1] if self._points else None

    @property
    def spark(self) -> str:
        """The points of its small chart."""
        return sparkline(value for _, value in self._points)


class Counter:
    """The rate of a counter, a number that only grows."""

    __slots__ = ("_at", "_count", "rate")

    def __init__(self) -> None:
        self._at: float | None = None
        self._count = 0
        self.rate: float | None = None

    def observe(self, at: float, count: int) -> float | None:
        """Take the number at a moment, in seconds; return what it grew by each second, None at first.

        A number that has become smaller begins anew: the topic was deleted and made again, or its log was cut.
        """
        if self._at is not None and at > self._at:
            self.rate = max(0, count - self._count) / (at - self._at) if count >= self._count else None
        self._at, self._count = at, count
        return self.rate


def sparkline(values: Iterable[float], width: int = 96, height: int = 22) -> str:
    """Return the points of an SVG polyline through values, evenly spaced; empty for fewer than two.

    The lowest line of the picture is 0, its highest the largest value.
    """
    found = list(values)
    if len(found) < 2:
        return ""
    top = max(max(found), 1e-9)
    step = width / (len(found) - 1)
    return " ".join(
        f"{index * step:.1f},{height - 1 - (height - 2) * max(0.0, value) / top:.1f}"
        for index, value in enumerate(found)
    )
