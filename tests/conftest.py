"""What the suites share: a three-broker cluster, Apache Kafka's jars, and the Java that runs them.

`OTTLA_TEST_BOOTSTRAP` points the compat suites at another cluster instead, such as three brokers of Apache
Kafka: that is how the tests themselves are checked.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.machine import KAFKA_LIBS, Installer, missing_needs, needs_of, run_quietly
from tests.patience import until

# How long one example takes depends on the machine.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


_NOT_RUN = pytest.StashKey[list[str]]()
_INSTALLER = pytest.StashKey[Installer]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("machine")
    group.addoption(
        "--install-needs", action="store_true", help="install what the tests need and the machine lacks"
    )
    group.addoption(
        "--complete", action="store_true", help="fail where tests cannot run for want of something"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose needs the machine does not meet, and keep the lines that report them."""
    config.stash[_NOT_RUN] = []
    needs = {
        item: needs_of(
            getattr(item, "fixturenames", ()),
            (name for mark in item.iter_markers("needs") for name in mark.args),
        )
        for item in items
    }
    wanted = frozenset().union(*needs.values())
    if config.getoption("--install-needs") and not config.getoption("--collect-only"):
        config.stash[_INSTALLER] = Installer(lambda line: print(line, flush=True), run_quietly)
        config.stash[_INSTALLER].install(wanted)
    missing = missing_needs(wanted)
    left_out = [item for item in items if needs[item] & missing.keys()]
    for name, text in missing.items():
        count = sum(name in needs[item] for item in left_out)
        config.stash[_NOT_RUN].append(f"not run: {count} that need {name} ({text})")
    if missing and config.getoption("--complete"):
        raise pytest.UsageError(*config.stash[_NOT_RUN])
    items[:] = [item for item in items if not needs[item] & missing.keys()]
    config.hook.pytest_deselected(items=left_out)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Report before the first test what is not run."""
    return config.stash.get(_NOT_RUN, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report after the last test what was not run."""
    for line in terminalreporter.config.stash.get(_NOT_RUN, []):
        terminalreporter.write_line(line, yellow=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what was started for the tests."""
    installer = config.stash.get(_INSTALLER, None)
    if installer is not None:
        installer.close()


class GivenCluster:
    """A cluster that exists already: only its address is known."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


class Topics:
    """Topics of the shared cluster, made and waited for through librdkafka's admin client."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._admin = self._fresh_client()

    def create(
        self, names: Sequence[str], partitions: int = 3, replication_factor: int = 3, **configs: str
    ) -> None:
        """Create topics with the same settings, and wait until every leader serves."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topics = [NewTopic(name, partitions, replication_factor, config=settings) for name in names]
        for future in self._admin.create_topics(topics, request_timeout=60).values():
            future.result(timeout=60)
        self.wait_served([TopicPartition(name, p) for name in names for p in range(partitions)])

    def wait_served(self, partitions: Sequence[TopicPartition]) -> None:
        """Ask for the end of each partition until its leader answers: only then does acks=0 reach a log.

        librdkafka keeps a broker's answer that a new topic does not exist, so a client that got it is replaced.
        """
        waiting = list(partitions)

        def all_answer() -> bool:
            asked = self._admin.list_offsets({p: OffsetSpec.latest() for p in waiting}, request_timeout=10)
            waiting[:] = [p for p, answer in asked.items() if answer.exception(timeout=60) is not None]
            if waiting:
                self._admin = self._fresh_client()
            return not waiting

        until(all_answer)

    def wait_readable(self, partition: TopicPartition, end: int) -> None:
        """Wait until consumers can read up to an offset: less than acks=all promises nothing about the followers."""

        def is_readable() -> bool:
            asked = self._admin.list_offsets({partition: OffsetSpec.latest()}, request_timeout=10)
            return asked[partition].result(timeout=60).offset >= end

        until(is_readable)

    def _fresh_client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap_servers})


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A healthy cluster of three brokers, shared by all tests that do it no harm."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        yield GivenCluster(given)
        return
    from ottla.testing import Cluster

    with Cluster.up(tmp_path_factory.mktemp("cluster") / "data", brokers=3) as running:
        yield running


@pytest.fixture(scope="session")
def make_topics(cluster: GivenCluster) -> Topics:
    """Make topics on the shared cluster."""
    return Topics(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The folder of Apache Kafka's jars that were fetched from Maven Central."""
    return KAFKA_LIBS


@pytest.fixture(scope="session")
def kafka_java(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a main class of Apache Kafka, quick to start and quiet."""
    java = shutil.which("java")
    assert java, "no java on the path"
    logging = tmp_path_factory.mktemp("log4j") / "log4j.properties"
    logging.write_text(
        "log4j.rootLogger=WARN, stderr\n"
        "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.stderr.Target=System.err\n"
        "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.stderr.layout.ConversionPattern=%d %p %m (%c)%n\n"
    )
    return [
        java,
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"),
        f"-Dlog4j.configuration=file:{logging}",
        *("-cp", f"{libs_path(kafka_libs)}"),
    ]


@pytest.fixture(scope="session")
def old_kafka_java(kafka_java: list[str], kafka_libs: Path) -> list[str]:
    """The command that runs a main class of Apache Kafka 1.1.1, with the logging jars of 3.9."""
    *command, _ = kafka_java
    jars = [
        kafka_libs / "old-consumer" / "*",
        *kafka_libs.glob("slf4j-reload4j-*.jar"),
        *kafka_libs.glob("reload4j-*.jar"),
    ]
    return [*command, os.pathsep.join(map(str, jars))]


def libs_path(libs: Path) -> str:
    """Return the class path of a folder of jars."""
    return f"{libs}/*"
