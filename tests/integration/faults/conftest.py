"""The one cluster that the fault tests harm in turn, and a topic for each of them."""

from collections.abc import Iterator

import pytest

from tests.integration.faults.harmed_cluster import HarmedCluster


@pytest.fixture(scope="package")
def harmed_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarmedCluster]:
    """Three brokers and three ZooKeeper servers, each with links of its own."""
    running = HarmedCluster(tmp_path_factory.mktemp("faults"))
    yield running
    running.down()


@pytest.fixture
def harmed(harmed_cluster: HarmedCluster, request: pytest.FixtureRequest) -> Iterator[HarmedCluster]:
    """The cluster, whole at the beginning, and healed after a test that left it broken."""
    harmed_cluster.wait_whole()
    failed_before = request.session.testsfailed
    yield harmed_cluster
    if request.session.testsfailed > failed_before:
        print(harmed_cluster.tell_logs())
    harmed_cluster.heal()


@pytest.fixture
def topic(harmed: HarmedCluster, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions with three replicas, each broker the leader of one, and all in sync."""
    name = request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")
    harmed.create_topic(name)
    return name
