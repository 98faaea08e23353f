"""The demo's picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt


def draw_hours(path: Path, rows: Sequence[tuple[int, int, float | None]]) -> None:
    """Draw departures as bars, and above them the mean delay as a line, by hour of the day."""
    hours = [hour for hour, _, _ in rows]
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, height_ratios=(1, 1.6))
    delayed = [(hour, delay) for hour, _, delay in rows if delay is not None]
    above.plot([hour for hour, _ in delayed], [delay for _, delay in delayed], color="#b5482a", marker="o")
    above.set_ylabel("mean departure\ndelay, minutes")
    above.set_ylim(bottom=0)
    below.bar(hours, [departures for _, departures, _ in rows], color="#33658a")
    below.set_ylabel("departures in 2013")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    below.set_xlabel("scheduled hour, New York time")
    below.set_xticks(range(0, 24, 2))
    for axes in (above, below):
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Flights out of New York by hour of the day: delays grow until the evening")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
