"""What is counted is what is shown."""

import errno
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from cluster.metrics import exposition
from cluster.metrics.catalogue import PROBES, BrokerMetrics
from cluster.metrics.exposition import MetricsEndpoint, render
from cluster.metrics.process_probes import add_process_probes
from cluster.metrics.registry import Histogram, Registry


def shown(registry: Registry) -> dict[str, float]:
    text = trio.run(render, registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def test_families_and_their_children() -> None:
    registry = Registry()
    family = registry.counter("bytes", "Bytes.", ("topic", "way"))
    child = family.of("a", "in")
    child.value += 5
    assert family.of("a", "in") is child
    family.of('quo"ted\n', "in").value += 1
    with pytest.raises(ValueError, match="labels"):
        family.of("a")
    single = registry.gauge("depth", "Depth.")
    single.only.value = 2.5
    values = shown(registry)
    assert values["bytes_total{topic=a,way=in}"] == 5
    assert values['bytes_total{topic=quo"ted\n,way=in}'] == 1
    assert values["depth"] == 2.5
    family.remove("a", "in")
    family.remove("a", "in")
    assert "bytes_total{topic=a,way=in}" not in shown(registry)


def test_a_name_is_declared_once() -> None:
    registry = Registry()
    registry.counter("x", "X.")
    with pytest.raises(ValueError, match="declared twice"):
        registry.probe("x", "X.", lambda: 1)


def test_probes_are_asked_when_somebody_looks() -> None:
    registry = Registry()
    numbers = {("a", "0"): 1.0}
    asked = []

    def read() -> dict[tuple[str, ...], float]:
        asked.append(1)
        return dict(numbers)

    registry.probe("log_end", "End.", read, ("topic", "partition"))
    assert not asked
    numbers["b", "1"] = 7.0
    assert shown(registry) == {"log_end{partition=0,topic=a}": 1, "log_end{partition=1,topic=b}": 7}
    assert registry.values(["log_end"]) == {
        "log_end{topic=a,partition=0}": 1,
        "log_end{topic=b,partition=1}": 7,
    }
    assert registry.values(["nothing"]) == {}


def test_histograms_count_into_their_buckets() -> None:
    histogram = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 1.1, 10.0, 11.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.count == 5
    assert histogram.sum == pytest.approx(23.6)
    assert histogram.quantile(0.4) == 1.0
    assert histogram.quantile(0.5) == 10.0
    assert histogram.quantile(1.0) == 10.0
    assert Histogram().quantile(0.5) == 0.0


def test_histograms_are_shown_cumulated() -> None:
    registry = Registry()
    family = registry.histogram("time_ms", "Time.", ("request",), bounds=(1.0, 10.0))
    for value in (0.5, 5.0, 50.0):
        family.of("Fetch").observe(value)
    values = shown(registry)
    assert values["time_ms_bucket{le=1,request=Fetch}"] == 1
    assert values["time_ms_bucket{le=10,request=Fetch}"] == 2
    assert values["time_ms_bucket{le=+Inf,request=Fetch}"] == values["time_ms_count{request=Fetch}"] == 3
    assert values["time_ms_sum{request=Fetch}"] == 55.5


def test_a_brokers_metrics_are_declared_and_shown() -> None:
    metrics = BrokerMetrics()
    add_process_probes(metrics.registry)
    for name, (_, labels, _) in PROBES.items():
        value = {("x", "y", "z")[: len(labels)]: 3.0} if labels else 3.0
        metrics.probe(name, partial(dict if labels else float, value))
    metrics.messages_in.of("gone").value += 1
    metrics.forget_topic("gone")
    values = shown(metrics.registry)
    assert values["kafka_server_replicamanager_leadercount"] == 3
    assert values["process_resident_memory_bytes"] > 1_000_000
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_start_time_seconds"] > 1_600_000_000
    assert not any("gone" in name for name in values)
    with pytest.raises(KeyError):
        metrics.probe("kafka_nothing", lambda: 1)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"HEAD /metrics?name=x HTTP/1.0\r\n\r\n", 200),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 503),
        (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"\0\0\0\x05hello\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + bytes(b"x" * 20_000), 431),
    ],
)
@pytest.mark.parametrize("piece", [1 << 20, 7])
def test_the_endpoint_answers_and_closes(head: bytes, status: int, piece: int) -> None:
    answer = answer_to(head, piece)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close\r\n" in answer
    assert (b"Allow: GET, HEAD\r\n" in answer) is (status == 405)


def test_a_head_request_gets_the_length_and_no_body() -> None:
    got = answer_to(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", ready=True)
    asked = answer_to(b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n", ready=True)
    assert got == asked + b"ok\n"


def test_a_peer_that_leaves_before_it_asks_gets_no_answer() -> None:
    assert answer_to(b"") == b""


def answer_to(head: bytes, piece: int = 1 << 20, *, ready: bool = False) -> bytes:
    """Return all that the endpoint sends to a peer that sends a request head in pieces and then nothing more."""

    async def ask() -> bytes:
        endpoint = MetricsEndpoint(Registry(), "127.0.0.1", 0, is_ready=lambda: ready)
        ours, theirs = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endpoint._answer, theirs)
            with suppress(trio.BrokenResourceError):  # the endpoint need not read on once it has refused
                for start in range(0, len(head), piece):
                    await ours.send_all(head[start : start + piece])
                await ours.send_eof()
            return b"".join([part async for part in ours])

    return trio.run(ask)


def test_a_family_that_cannot_be_read_is_left_out():
    registry = Registry()

    def fail():
        raise OSError(errno.EMFILE, "Too many open files")

    registry.probe("broken", "x", fail)
    registry.probe("whole", "x", lambda: 1.0)
    text = trio.run(render, registry).decode()
    assert "whole 1.0" in text
    assert "broken 1.0" not in text


def test_a_scrape_without_a_descriptor_to_load_with_is_refused(monkeypatch):
    async def fail(_):
        raise OSError(errno.EMFILE, "Too many open files")

    async def main():
        endpoint = MetricsEndpoint(Registry(), "127.0.0.1", 0)
        async with trio.open_nursery() as nursery:
            await nursery.start(endpoint.serve)
            stream = await trio.open_tcp_stream("127.0.0.1", endpoint.port)
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b"".join([part async for part in stream])
            assert answer.startswith(b"HTTP/1.1 503 ")
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(exposition, "render", fail)
    trio.run(main)


def test_a_large_family_is_written_in_slices(monkeypatch):
    registry = Registry()
    registry.probe("many", "One help.", lambda: {(str(n),): float(n) for n in range(7)}, ("n",))
    registry.probe("none", "x", dict, ("n",))
    whole = trio.run(render, registry)
    monkeypatch.setattr(exposition, "SAMPLES_PER_TURN", 3)
    assert trio.run(render, registry) == whole
    assert whole.count(b"# HELP many One help.") == 1
