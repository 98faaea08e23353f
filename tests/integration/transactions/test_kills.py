"""Consume, transform, produce while a cluster is harmed: a part of what running `__main__` does for minutes."""

from pathlib import Path

from ottla.testing import Cluster
from tests.integration.transactions.checker import SETTINGS, Checker

HARMS = (
    *("kill_host", "kill_copier", "pause", "kill_controller", "restart", "kill_all"),
    *("crash:commit_appended", "crash:first_marker_written", "crash:abort_marker_without_index"),
)


def test_copiers_copy_each_input_once_whatever_happens(tmp_path: Path, record_property) -> None:
    with (
        Cluster.up(tmp_path / "data", brokers=3, overrides=SETTINGS) as cluster,
        Checker(cluster, tmp_path, 1) as checker,
    ):
        checker.harm(HARMS)
        checker.finish()
        record_property("hung in librdkafka", str(dict(checker.hung)))
