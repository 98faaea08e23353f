"""Fixtures for pytest: a cluster for the session, a topic for the test.

They come with ``pip install ottla[testing]``. Nothing is imported or started before a test asks for a cluster.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from ottla.testing.killable import KillableCluster

_IN_PROCESS: Final = "in-process"
_PROCESSES: Final = "processes"
_WORLDS: Final = (_IN_PROCESS, _PROCESSES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with a setting of the same name in pytest's configuration."""
    group = parser.getgroup("ottla", "a Kafka cluster for tests")
    group.addoption(
        "--ottla-cluster",
        choices=_WORLDS,
        help="Where brokers run: in pytest's process, without Java, or as processes with a ZooKeeper.",
    )
    group.addoption("--ottla-brokers", type=int, metavar="N", help="How many brokers the cluster has.")
    parser.addini("ottla_cluster", f"Where brokers run: {' or '.join(_WORLDS)}.", default=_IN_PROCESS)
    parser.addini("ottla_brokers", "How many brokers the cluster has.", default="3")
    parser.addini(
        "ottla_settings", "Settings of all brokers, one KEY=VALUE a line.", type="linelist", default=[]
    )


@pytest.fixture(scope="session")
def ottla_cluster(pytestconfig: pytest.Config) -> "Iterator[KillableCluster]":
    """A cluster for the whole session, which tests may kill, pause, cut and fill.

    After each test that used it, dead brokers are started and faults are healed; topics stay. With pytest-xdist,
    every worker has a cluster of its own.
    """
    from ottla.testing import cluster

    world = pytestconfig.getoption("--ottla-cluster") or pytestconfig.getini("ottla_cluster")
    if world not in _WORLDS:
        raise pytest.UsageError(f"ottla_cluster is {world!r}; it can be {' or '.join(_WORLDS)}")
    count = pytestconfig.getoption("--ottla-brokers") or int(pytestconfig.getini("ottla_brokers"))
    settings = dict(_setting(line) for line in pytestconfig.getini("ottla_settings"))
    with cluster(brokers=count, processes=world == _PROCESSES, settings=settings) as running:
        yield running


@pytest.fixture
def ottla_clean_cluster(ottla_cluster: "KillableCluster") -> "KillableCluster":
    """The session's cluster in its initial state: no topic, no group, no setting, every broker up."""
    ottla_cluster.reset()
    return ottla_cluster


@pytest.fixture
def ottla_bootstrap(ottla_cluster: "KillableCluster") -> str:
    """The addresses for a client's ``bootstrap.servers``: ``host:port`` of every broker."""
    return ottla_cluster.bootstrap_servers


@pytest.fixture
def ottla_topic(ottla_cluster: "KillableCluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of the test's own, deleted after it.

    Indirect parametrisation with a mapping chooses its ``partitions``, ``replicas`` and ``configs``.
    """
    name = f"test-{uuid4().hex[:12]}"
    ottla_cluster.create_topic(name, **getattr(request, "param", {}))
    yield name
    _make_whole(ottla_cluster)
    ottla_cluster.delete_topics(name)


@pytest.fixture(autouse=True)
def _ottla_healed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave a whole cluster to the next test."""
    if "ottla_cluster" not in request.fixturenames:
        yield
        return
    running: KillableCluster = request.getfixturevalue("ottla_cluster")
    yield
    _make_whole(running)


def _make_whole(running: "KillableCluster") -> None:
    running.heal()
    if len(running.view().descriptions) < len(running.broker_ids):
        running.start()


def _setting(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise pytest.UsageError(f"ottla_settings: {line!r} is not KEY=VALUE")
    return name.strip(), value.strip()
