"""Our console tools beside Apache Kafka's: the same bytes out of a topic, the same records into one."""

import base64
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer

from tests.compat.client.conftest import Brokers, apache_kafka  # noqa: F401 - the fixture is used by name
from tests.compat.formatted_state import group_of, objects
from tests.compat.java_program import JavaProgram
from tests.patience import until

OTTLA = [sys.executable, "-m", "ottla"]
PROPERTIES = [
    [],
    ["print.key=true"],
    [
        "print.timestamp=true",
        "print.partition=true",
        "print.offset=true",
        "print.headers=true",
        "print.key=true",
    ],
    ["print.value=false"],
    ["print.value=false", "print.key=true", "print.offset=true"],
    ["print.headers=true", "headers.separator=;", "key.separator= | ", "line.separator=;"],
    ["print.key=true", "null.literal=<null>", "key.separator="],
    ["print.timestamp=true", "print.value=FALSE "],
    ["key.deserializer=org.apache.kafka.common.serialization.StringDeserializer", "print.key=true"],
]
FLAGS = [
    ["--offset", "earliest", "--max-messages", "5"],
    ["--offset", "2", "--max-messages", "3"],
    ["--from-beginning", "--max-messages", "2"],
    ["--from-beginning", "--max-messages", "5", "--isolation-level", "read_committed"],
]


@pytest.fixture(scope="module")
def java_consumers(kafka_java: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProgram]:
    program = JavaProgram(kafka_java, "ConsoleConsumers.java", log=tmp_path_factory.mktemp("java") / "log")
    yield program
    program.close()


@pytest.fixture(params=["ottla", "apache"])
def brokers(request: pytest.FixtureRequest) -> Brokers:
    """The brokers of each kind in turn."""
    given = request.getfixturevalue("cluster" if request.param == "ottla" else "apache_kafka")
    return Brokers(request.param, given.bootstrap_servers, 3 if request.param == "ottla" else 1)


def ours(command: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*OTTLA, command, *arguments], input=stdin, capture_output=True, timeout=60, check=False
    )


def theirs(consumers: JavaProgram, *arguments: str) -> bytes:
    return base64.b64decode(next(consumers.answers("\x01".join(arguments))))


def fill(brokers: Brokers, topic: str) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers})
    rows = [
        (b"k1", b"v1", [("a", b"1"), ("b", None)]),
        (None, "grüße".encode(), []),
        (b"k3", b"", [("a", b"")]),
        (b"k4", None, []),
        (b"\xff", b"\x00\xff", []),
    ]
    for offset, (key, value, headers) in enumerate(rows):
        producer.produce(
            topic, value, key, headers=headers, partition=0, timestamp=1_700_000_000_000 + offset
        )
    assert producer.flush(30) == 0


def test_the_consumer_writes_what_kafkas_writes(brokers: Brokers, java_consumers: JavaProgram) -> None:
    topic = brokers.topic(1, retention_ms="-1")
    appended = brokers.topic(1, retention_ms="-1", message_timestamp_type="LogAppendTime")
    fill(brokers, topic)
    fill(brokers, appended)
    cases = [(topic, flags, properties) for flags in FLAGS for properties in PROPERTIES]
    cases.append((appended, FLAGS[0], PROPERTIES[2]))
    servers = ["--bootstrap-server", brokers.bootstrap_servers]
    for name, flags, properties in cases:
        arguments = [*servers, "--topic", name, "--partition", "0", *flags]
        for each in properties:
            arguments += ["--property", each]
        done = ours("console-consumer", *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout == theirs(java_consumers, *arguments), (flags, properties)
        assert done.stderr.decode().startswith("Processed a total of ")


def test_state_topics_are_written_as_kafka_writes_them(brokers: Brokers, java_consumers: JavaProgram) -> None:
    topic, group = brokers.topic(1, retention_ms="-1"), "console-state"
    fill(brokers, topic)
    servers = ["--bootstrap-server", brokers.bootstrap_servers]
    read = [*servers, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3"]
    done = ours("console-consumer", *read)
    assert (done.returncode, done.stderr.decode().splitlines()[-1]) == (0, "Processed a total of 3 messages")
    again = ours("console-consumer", *read[:-1], "2")
    assert again.stdout == b"null\n\x00\xff\n"  # exactly where the group was
    for name in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
        arguments = [*servers, "--topic", "__consumer_offsets", "--formatter"]
        arguments += [f"org.apache.kafka.tools.consumer.{name}"]
        mine = ours("console-consumer", *arguments, "--from-beginning", "--exit-at-end").stdout
        found = objects(
            theirs(java_consumers, *arguments, "--from-beginning", "--timeout-ms", "2000").decode()
        )
        wanted = [each for each in found if group_of(each) == group]
        assert wanted
        assert [each for each in objects(mine.decode()) if group_of(each) == group][: len(wanted)] == wanted


def test_the_producer_sends_what_kafkas_sends(brokers: Brokers, kafka_java: list[str]) -> None:
    servers = ["--bootstrap-server", brokers.bootstrap_servers]
    lines = "a:1,b:N\tk1\tv\t1\nN\tN\tgrüße\nh:x\tk3\tN\n"
    flags = [
        "--property",
        "parse.key=true",
        "--property",
        "parse.headers=true",
        "--property",
        "null.marker=N",
    ]
    records = []
    for command in ("theirs", "ours"):
        topic = brokers.topic(1, retention_ms="-1")
        arguments = [*servers, "--topic", topic, *flags, "--compression-codec", "lz4"]
        if command == "ours":
            done = ours("console-producer", *arguments, stdin=lines.encode())
        else:
            done = subprocess.run(
                [*kafka_java, "kafka.tools.ConsoleProducer", *arguments],
                input=lines.encode(),
                capture_output=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        found = brokers.consume(topic, 3)[0]
        records.append([(each.key(), each.value(), each.headers()) for each in found])
    assert records[0] == records[1]
    assert records[1][0] == (b"k1", b"v\t1", [("a", b"1"), ("b", None)])


def test_a_file_comes_out_as_it_went_in(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic(1, retention_ms="-1")
    servers = ["--bootstrap-server", brokers.bootstrap_servers, "--topic", topic]
    data = os.urandom(300_000) + b"\r\n\n\n" + "grüße\n".encode() * 1000
    for form in ([], ["--sync"]):
        piece = data if not form else data[-300:]
        done = ours("console-producer", *servers, *form, stdin=piece)
        assert (done.returncode, done.stderr) == (0, b"")
    read = ours("console-consumer", *servers, "--from-beginning", "--exit-at-end")
    assert read.stdout == data + data[-300:]
    for form in ("json", "csv"):
        copy = brokers.topic(1, retention_ms="-1")
        columns = ["--columns", "key,value,headers,timestamp"]
        text = ours(
            "console-consumer", *servers, "--from-beginning", "--exit-at-end", "--format", form, *columns
        ).stdout
        to = ["--bootstrap-server", brokers.bootstrap_servers, "--topic", copy]
        done = ours("console-producer", *to, "--line-reader", form, stdin=text)
        assert (done.returncode, done.stderr) == (0, b"")
        assert ours("console-consumer", *to, "--from-beginning", "--exit-at-end").stdout == read.stdout


def test_an_interrupt_commits_what_was_written(brokers: Brokers) -> None:
    topic = brokers.topic(1, retention_ms="-1")
    fill(brokers, topic)
    arguments = ["--bootstrap-server", brokers.bootstrap_servers, "--topic", topic, "--group", f"g-{topic}"]
    arguments += ["--from-beginning"]
    running = subprocess.Popen(
        [*OTTLA, "console-consumer", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert running.stdout is not None
    assert [running.stdout.readline() for _ in range(2)] == [b"v1\n", "grüße\n".encode()]
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out == b"\nnull\n\x00\xff\n"
    assert errors == b"Processed a total of 5 messages\n"
    done = ours("console-consumer", *arguments, "--timeout-ms", "1500")
    assert (done.stdout, done.stderr) == (b"", b"Processed a total of 0 messages\n")


def test_an_interrupted_producer_has_sent_what_it_read(brokers: Brokers) -> None:
    topic = brokers.topic(1, retention_ms="-1")
    arguments = ["--bootstrap-server", brokers.bootstrap_servers, "--topic", topic]
    running = subprocess.Popen(
        [*OTTLA, "console-producer", *arguments, "--timeout", "60000"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdin is not None
    running.stdin.write(b"first\n")
    running.stdin.flush()

    # The line is read once the pipe is empty; the connection was made before.
    until(lambda: _unread(running.stdin) == 0)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130, errors
    assert len(brokers.consume(topic, 1)[0]) == 1


def _unread(pipe: IO[bytes]) -> int:
    return int.from_bytes(fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["console-producer", "--topic", "t"], 2, "Missing option '--bootstrap-server'"),
        (["console-producer", "--topic", "t", "--bootstrap-server", "x"], 1, "Error: "),
        (["console-producer", "--topic", "t", "--bootstrap-server", "x:1", "--line-reader", "my.Reader"], 1, "is Java"),
        (["console-producer", "--topic", "t", "--bootstrap-server", "x:1", "--property", "null.marker=,"], 1, "may"),
        (["console-consumer", "--bootstrap-server", "x:1"], 2, "exactly one of --topic and --include"),
        (["console-consumer", "--bootstrap-server", "x:1", "--topic", "t", "--offset", "1"], 2, "needs --partition"),
        (["console-consumer", "--bootstrap-server", "x:1", "--topic", "t", "--partition", "0", "--offset", "a"], 2, ""),
        (["console-consumer", "--bootstrap-server", "x:1", "--topic", "t", "--formatter", "my.F"], 1, "is Java"),
        (["console-consumer", "--bootstrap-server", "x:1", "--include", "("], 1, "no regular expression"),
        (["console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t"], 1, "Connection refused"),
        (["console-consumer", "--bootstrap-server", "x:1", "--topic", "t", "--consumer-property", "fetch.min.bytes=x"],
         1, "fetch.min.bytes=x: it is a number"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line(arguments, code, text) -> None:
    done = ours(*arguments)
    assert done.returncode == code, done.stderr
    assert text in done.stderr.decode()
    assert b"Traceback" not in done.stderr
