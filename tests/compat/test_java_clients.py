"""Apache Kafka's Java producer, consumer and admin against the cluster, all from one virtual machine."""

import base64
from pathlib import Path

import pytest

from tests.compat import matrix
from tests.compat.java_program import JavaProgram
from tests.compat.matrix import COMBINATIONS, PARTITIONS, Combination, Read


class Java(JavaProgram):
    """The program java/Matrix.java, driven line by line."""

    def __init__(self, java: list[str], bootstrap: str, log: Path) -> None:
        super().__init__(java, "Matrix.java", bootstrap, log=log)

    def ask(self, *words: object, body: list[str] | None = None) -> list[str]:
        """Send one command and return the lines of its answer; fail with the program's error."""
        out: list[str] = []
        for line in self.answers("\t".join(str(w) for w in words), *(body or [])):
            text = line.rstrip("\n")
            if text == "ok":
                break
            assert not text.startswith("error\t"), text
            out.append(text)
        return out


@pytest.fixture(scope="module")
def java(cluster, kafka_java, tmp_path_factory):
    program = Java(kafka_java, cluster.bootstrap_servers, tmp_path_factory.mktemp("java") / "stderr.log")
    yield program
    program.close()


def encoded(value: bytes | None) -> str:
    return "-" if value is None else base64.b64encode(value).decode()


def decoded(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)


def parsed(line: str) -> Read:
    partition, offset, key, value, timestamp, *rest = line.split("\t")
    headers = tuple((rest[i], decoded(rest[i + 1]) or b"") for i in range(0, len(rest), 2))
    return Read(int(partition), int(offset), decoded(key), decoded(value), int(timestamp), headers)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: c.topic)
def test_produce_and_read_back(java: Java, combination: Combination) -> None:
    topic = f"java-{combination.topic}"
    sent = matrix.records()
    java.ask("create", topic, PARTITIONS, 3)
    body = [
        "\t".join(
            [
                *(str(r.partition), encoded(r.key), encoded(r.value), str(r.timestamp_ms)),
                *(part for name, value in r.headers for part in (name, encoded(value))),
            ]
        )
        for r in sent
    ]
    idempotent = str(combination.idempotent).lower()
    java.ask("produce", topic, combination.acks, combination.codec, idempotent, body=[*body, "."])
    read: list[Read] = []
    for partition in range(PARTITIONS):
        *lines, end = java.ask("consume", topic, partition, 0, matrix.RECORDS_PER_PARTITION)
        assert end == "."
        read.extend(parsed(line) for line in lines)
    matrix.check_all(sent, read)
    for timestamp, offset in matrix.time_searches().items():
        assert java.ask("search", topic, 1, timestamp) == ["-" if offset is None else str(offset)]
    half = matrix.RECORDS_PER_PARTITION // 2
    *lines, _end = java.ask("consume", topic, 1, half, matrix.RECORDS_PER_PARTITION - half)
    assert [parsed(line).offset for line in lines] == list(range(half, matrix.RECORDS_PER_PARTITION))
