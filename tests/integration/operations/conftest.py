"""A cluster for the tests of operating one; each test leaves it whole, and uses topics of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.integration.operations.operating import BROKERS, Operator


@pytest.fixture(scope="package")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers; the automatic rebalance is off, so that only the tests elect leaders."""
    overrides = {
        "min.insync.replicas": "1",
        "auto.leader.rebalance.enable": "false",
        "ottla.metrics.port": "0",
    }
    with Cluster.up(tmp_path_factory.mktemp("operated") / "data", overrides=overrides) as cluster:
        yield cluster


@pytest.fixture
def operator(operated: Cluster, tmp_path: Path) -> Iterator[Operator]:
    """An operator's commands; afterwards every broker runs, whatever the test did to it."""
    yield Operator(operated, tmp_path)
    running = operated.view().descriptions
    gone = [broker for broker in BROKERS if broker not in running]
    if gone:
        operated.start(*gone)
