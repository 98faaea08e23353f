"""Apache Kafka's Java producers of several versions in transactions, and its tools with them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.compat import matrix
from tests.machine import KAFKA_LIBS

VERSIONS = ("2.0.1", "2.8.2", "3.9.1")
PARTITIONS = 2
_FENCED = {"ProducerFencedException", "InvalidProducerEpochException"}
_LATEST_TIMEOUT_MS = 11_500
"""A timeout of a second, the interval between checks for timeouts, and the time to abort."""


def java_of(kafka_java: list[str], version: str) -> list[str]:
    """Return the command that runs Java with the clients of a version instead of the newest ones."""
    *command, path = kafka_java
    assert command[-1] == "-cp"
    if version == "3.9.1":
        return kafka_java
    others = [str(jar) for jar in sorted(Path(path).parent.glob("*.jar")) if not jar.name.startswith("kafka")]
    return [*command, os.pathsep.join([str(KAFKA_LIBS / "old" / f"kafka-clients-{version}.jar"), *others])]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_java_producer_in_transactions(cluster, make_topics, kafka_java, version: str) -> None:
    topic = f"{matrix.RUN}-java-{version}"
    make_topics.create([topic], PARTITIONS)
    program = str(Path(__file__).parent / "java" / "Transactions.java")
    done = subprocess.run(
        [*java_of(kafka_java, version), program, cluster.bootstrap_servers, topic, str(_LATEST_TIMEOUT_MS)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = dict(line.split("\t") for line in done.stdout.splitlines())
    committed = [
        value
        for _ in range(PARTITIONS)
        for value in (*(f"kept{number}" for number in range(3)), *(f"again{number}0" for number in range(20)))
    ]
    assert printed.pop("committed") == f"[{', '.join(committed)}]"
    assert printed.pop("fenced") in _FENCED
    assert printed.pop("timed out") in _FENCED
    assert printed == {
        # INVALID_TRANSACTION_TIMEOUT, which all versions treat as a fatal error without its own class.
        "too long": "KafkaException",
        "uncommitted": str(PARTITIONS * 26),
        "offset": "3",
        "after the fence": str(PARTITIONS * 24),
        "at last": str(PARTITIONS * 24),
    }


@pytest.mark.needs("kcat")
def test_the_performance_test_in_transactions(cluster, make_topics, kafka_java) -> None:
    topic = f"{matrix.RUN}-producer-perf"
    make_topics.create([topic], 3)
    done = subprocess.run(
        [
            *kafka_java,
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
            *("--transactional-id", f"{topic}-id", "--transaction-duration-ms", "100"),
            *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20000 records sent" in done.stdout
    read = subprocess.run(
        [
            *("kcat", "-b", cluster.bootstrap_servers, "-C", "-t", topic, "-e", "-q", "-f", "%p\n"),
            *("-X", "isolation.level=read_committed", "-X", "fetch.wait.max.ms=20"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert len(re.findall(r"^\d$", read.stdout, re.M)) == 20_000
