"""One cluster for the tests of log directories, in the order in which they use up its disks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.directories.disk_cluster import DiskCluster
from tests.integration.operations.operating import Operator


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskCluster]:
    """Three brokers with two disks each."""
    with DiskCluster(tmp_path_factory.mktemp("disks")) as cluster:
        yield cluster


@pytest.fixture
def operator(disks: DiskCluster, tmp_path: Path) -> Operator:
    """An operator's commands on this cluster."""
    return Operator(disks, tmp_path)
