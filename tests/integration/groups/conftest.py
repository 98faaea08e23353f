"""A cluster whose groups settle quickly, and the Java member compiled."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.integration.groups.members import Group


@pytest.fixture(scope="package")
def quick_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers that do not wait for more members, and allow short sessions."""
    overrides = {
        "group.initial.rebalance.delay.ms": "200",
        "group.min.session.timeout.ms": "1000",
        "offsets.topic.num.partitions": "6",
    }
    with Cluster.up(tmp_path_factory.mktemp("groups") / "data", brokers=3, overrides=overrides) as running:
        yield running


@pytest.fixture
def make_topics(quick_cluster: Cluster) -> Topics:
    """Make topics on that cluster; with a new admin client, because the controller moves between tests."""
    return Topics(quick_cluster.bootstrap_servers)


@pytest.fixture(scope="package")
def java_member(
    kafka_java: list[str], kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The command that runs the Java member."""
    classes = tmp_path_factory.mktemp("classes")
    javac = shutil.which("javac")
    assert javac, "no javac on the path"
    source = Path(__file__).parent / "Member.java"
    subprocess.run([javac, "-cp", f"{kafka_libs}/*", "-d", str(classes), str(source)], check=True)
    *command, class_path = kafka_java
    return [*command, f"{classes}:{class_path}", "Member"]


@pytest.fixture
def make_group(quick_cluster: Cluster, java_member: list[str], tmp_path: Path) -> Callable[..., Group]:
    """Make a group that has no members yet."""

    def make(group_id: str, topic: str, client: str, strategy: str) -> Group:
        return Group(
            quick_cluster.bootstrap_servers, group_id, topic, client, strategy, tmp_path, java_member
        )

    return make
