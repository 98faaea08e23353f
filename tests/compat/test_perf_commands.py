"""Our perf tools beside Apache Kafka's: one regular expression matches the lines of both."""

import json
import re
import subprocess
import sys

import pytest

from tests.compat.client.conftest import Brokers, apache_kafka  # noqa: F401 - the fixture is used by name

TOTAL = re.compile(
    r"^(\d+) records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.$",
    re.MULTILINE,
)
ROW = re.compile(
    r"^[-\d]+ [\d:]+, [-\d]+ [\d:]+, (\d+\.\d{4}), \d+\.\d{4}, (\d+), \d+\.\d{4}, "
    r"\d+, -?\d+, -?\d+\.\d{4}, -?\d+\.\d{4}$",
    re.MULTILINE,
)
LATENCIES = re.compile(
    r"\A0\t\d+\.\d+(E-?\d+)?\nAvg latency: \d+\.\d{4} ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n\Z"
)
OURS = {
    "org.apache.kafka.tools.ProducerPerformance": "producer-perf-test",
    "org.apache.kafka.tools.ConsumerPerformance": "consumer-perf-test",
    "org.apache.kafka.tools.EndToEndLatency": "end-to-end-latency",
}


@pytest.fixture(params=["ottla", "apache"])
def brokers(request: pytest.FixtureRequest) -> Brokers:
    """The brokers of each kind in turn."""
    given = request.getfixturevalue("cluster" if request.param == "ottla" else "apache_kafka")
    return Brokers(request.param, given.bootstrap_servers, 3 if request.param == "ottla" else 1)


@pytest.fixture(params=["theirs", "ours"])
def tool(request: pytest.FixtureRequest, kafka_java: list[str]):
    def run(main: str, *arguments: str) -> str:
        command = (
            [*kafka_java, main] if request.param == "theirs" else [sys.executable, "-m", "ottla", OURS[main]]
        )
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_perf_tools_print_the_same_lines(brokers: Brokers, tool) -> None:
    topic = brokers.topic(1)
    servers = brokers.bootstrap_servers
    sending = ["--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    sending += ["--producer-props", f"bootstrap.servers={servers}", "acks=all"]
    out = tool("org.apache.kafka.tools.ProducerPerformance", *sending)
    assert [match[1] for match in TOTAL.finditer(out)] == ["2000"], out
    out = tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", servers, "--topic", topic, "--messages", "2000"),
    )
    head, row = out.splitlines()
    assert head.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    match = ROW.match(row)
    assert match, row
    assert match.groups() == (f"{2000 * 100 / 1024 / 1024:.4f}", "2000")
    assert LATENCIES.match(tool("org.apache.kafka.tools.EndToEndLatency", servers, topic, "20", "all", "64"))


def test_transactions_and_rates(brokers: Brokers) -> None:
    topic = brokers.topic(1)
    servers = f"bootstrap.servers={brokers.bootstrap_servers}"
    command = [sys.executable, "-m", "ottla", "producer-perf-test", "--topic", topic, "--num-records", "400"]
    command += ["--payload-monotonic", "--throughput", "400", "--transaction-duration-ms", "100", "--json"]
    done = subprocess.run(
        [*command, "--producer-props", servers], capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(done.stdout)
    assert found["records"] == 400
    records = brokers.consume(topic, 400, **{"isolation.level": "read_committed"})[0]
    assert [record.value() for record in records] == [b"%d" % number for number in range(400)]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "1"], 2, "exactly one of"),
        (["producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "1", "--record-size", "1"],
         2, "Either --producer-props or"),
        (["producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "0", "--record-size", "1",
          "--producer-props", "a=b"], 1, "would never send"),
        (["producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "1", "--record-size", "1",
          "--producer-props", "a"], 1, "Invalid property: a"),
        (["consumer-perf-test", "--topic", "t", "--messages", "1"], 2, "Missing option '--bootstrap-server'"),
        (["consumer-perf-test", "--bootstrap-server", "x:1", "--topic", "t", "--messages", "1", "--date-format", "EEE"],
         1, "the date format has 'EEE'"),
        (["end-to-end-latency", "x:1", "t", "1", "0", "10"], 2, "0"),
        (["end-to-end-latency", "127.0.0.1:1", "t", "1", "all", "10"], 1, "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line(arguments, code, text) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
