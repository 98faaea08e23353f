"""kcat against the cluster: list, produce in every way, read back from assigned partitions."""

import json
import subprocess

import pytest
from confluent_kafka import TopicPartition

from tests.compat import matrix
from tests.compat.matrix import COMBINATIONS, PARTITIONS, Combination

pytestmark = pytest.mark.needs("kcat")


def kcat(cluster, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["kcat", "-b", cluster.bootstrap_servers, "-X", "fetch.wait.max.ms=20", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def topics(cluster, make_topics):
    names = {c: f"kcat-{c.topic}" for c in COMBINATIONS}
    make_topics.create(list(names.values()), PARTITIONS)
    return names


def test_lists_the_cluster(cluster, topics) -> None:
    listing = json.loads(kcat(cluster, "-L", "-J"))
    assert sorted(b["id"] for b in listing["brokers"]) == [0, 1, 2]
    assert listing["controllerid"] in (0, 1, 2)
    known = {t["topic"]: t for t in listing["topics"]}
    for topic in topics.values():
        assert [len(p["replicas"]) for p in known[topic]["partitions"]] == [3] * PARTITIONS
        assert all(p["leader"] in (0, 1, 2) for p in known[topic]["partitions"])


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.topic)
def test_produce_and_read_back(cluster, topics, make_topics, combination: Combination) -> None:
    topic = topics[combination]
    lines = {p: [f"{p}-{i}:value {p} {i}" for i in range(50)] for p in range(PARTITIONS)}
    for partition, records in lines.items():
        kcat(
            cluster,
            *("-P", "-t", topic, "-p", str(partition), "-K", ":"),
            *("-z", combination.codec, "-X", f"acks={combination.acks}"),
            *("-X", f"enable.idempotence={str(combination.idempotent).lower()}"),
            stdin="\n".join(records).encode(),
        )
    for partition, records in lines.items():
        make_topics.wait_readable(TopicPartition(topic, partition), len(records))
        out = kcat(
            cluster,
            "-C",
            "-t",
            topic,
            "-p",
            str(partition),
            "-o",
            "beginning",
            "-e",
            "-q",
            "-f",
            "%o %k:%s\n",
        )
        assert out.decode().splitlines() == [f"{i} {r}" for i, r in enumerate(records)]
        tail = kcat(cluster, "-C", "-t", topic, "-p", str(partition), "-o", "-5", "-e", "-q", "-f", "%o\n")
        assert tail.decode().split() == ["45", "46", "47", "48", "49"]


def test_search_by_time(cluster, topics) -> None:
    topic = topics[Combination("all", "none")]
    everything = matrix.FIRST_TIMESTAMP_MS
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:{everything}").decode().strip().endswith("offset 0")
