"""Consume, transform, produce while a cluster is harmed: a part of what running `__main__` does for minutes."""

from pathlib import Path

from ottla.testing import Cluster
from tests.integration.transactions.checker import SETTINGS, Checker
from tests.integration.transactions.harms import CRASH_POINTS, crash_points

HARMS = (
    *("kill_host", "kill_copier", "pause", "kill_controller", "restart", "kill_all"),
    *(f"crash:{point}" for point in CRASH_POINTS),
)


def test_copiers_copy_each_input_once_whatever_happens(tmp_path: Path, record_property) -> None:
    with (
        crash_points(tmp_path / "crashes"),
        Cluster.up(tmp_path / "data", brokers=3, overrides=SETTINGS) as cluster,
        Checker(cluster, tmp_path, 1) as checker,
    ):
        checker.harm(HARMS)
        checker.finish()
        record_property("hung in librdkafka", str(dict(checker.hung)))
