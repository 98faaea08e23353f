"""How long nothing is acknowledged when hosts die: brokers with their guardians, who would close their sessions.

    python -m bench.dead_hosts [--rounds 10] [--victims process,leader,controller,both,hung,paused]

Three brokers, one partition with three replicas, an idempotent producer with acks=all that sends every few
milliseconds. Measured is the longest pause between two acknowledgements, from before the kill until a second after the
partition is led again. `process` kills the leader alone, whose guardian lives: what there is to come close to. `hung`
stops the leader's process, which its guardian then kills after `--hang-timeout-ms`. `paused`
stops leader and guardian for a few seconds and lets them go on: their session must be the same afterwards.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster

TOPIC = "measured"
SESSION_TIMEOUT_MS = 10_000
PAUSE_S = 3.0


class SteadyProducer:
    """Sends a record every few milliseconds, and notes when each was acknowledged. A context manager."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
            }
        )
        self._acknowledged: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        self.wait_more(50)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(30)

    def wait_more(self, count: int) -> None:
        """Wait until some more records are acknowledged."""
        wanted = len(self._acknowledged) + count
        while len(self._acknowledged) < wanted:
            pass_time(0.005)

    def longest_pause_s(self, since: float) -> float:
        """Return the longest time without an acknowledgement since a moment."""
        times = list(self._acknowledged)
        times = times[max(0, bisect_left(times, since) - 1) :]
        return max(later - earlier for earlier, later in pairwise(times))

    def _run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(TOPIC, b"x" * 100, on_delivery=self._on_delivery)
            self._producer.poll(0.005)

    def _on_delivery(self, error: object, _: object) -> None:
        if error is None:
            self._acknowledged.append(time.monotonic())


def pass_time(seconds: float) -> None:
    """Do nothing for a while: a measurement, unlike a test, has to."""
    threading.Event().wait(seconds)


def session_of(cluster: Cluster, broker: int) -> str:
    """Return a broker's ZooKeeper session, as it describes itself."""
    return str(cluster.view().descriptions[broker]["zookeeper"]["session_id"])


def measure(cluster: Cluster, producer: SteadyProducer, victims: str) -> tuple[float, bool]:
    """Harm the cluster once and mend it; give the longest pause, and whether a paused broker lost its session."""
    seen = cluster.wait_in_sync(TOPIC, 1)
    cluster.wait(
        lambda view: (
            all(
                sum(each in other.get("watched_sessions", ()) for other in view.descriptions.values()) >= 2
                for each in view.descriptions
            )
            or not any(other.get("watched_sessions") for other in view.descriptions.values())
        )
    )
    leader, controller = seen.leader(TOPIC, 0), seen.controller_id
    dying = {
        "leader": {leader},
        "process": {leader},
        "hung": {leader},
        "paused": {leader},
        "controller": {controller},
        "both": {leader, controller} if leader != controller else {leader, (leader + 1) % 3},
    }[victims]
    before = {broker: session_of(cluster, broker) for broker in dying}
    producer.wait_more(50)
    began = time.monotonic()
    if victims == "paused":
        record = cluster.broker(leader)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in (record["guardian_pid"], record["pid"]):
                os.kill(pid, number)
            if number == signal.SIGSTOP:
                pass_time(PAUSE_S)
        producer.wait_more(50)
        pass_time(2)
        lost = session_of(cluster, leader) != before[leader]
        return producer.longest_pause_s(began), lost
    # At the same moment, as one host or one `docker kill` would: the command takes its time to start.
    records = [cluster.broker(broker) for broker in dying]
    for record in records:
        if victims == "hung":
            os.kill(record["pid"], signal.SIGSTOP)
            continue
        for pid in [record["pid"]] if victims == "process" else [record["guardian_pid"], record["pid"]]:
            os.kill(pid, signal.SIGKILL)
    cluster.wait(lambda view: view.leader(TOPIC, 0) not in (-1, *dying) and view.controller_id not in dying)
    producer.wait_more(100)
    pass_time(1)
    pause_s = producer.longest_pause_s(began)
    cluster.start(*sorted(dying))
    return pause_s, False


def main() -> None:
    """Measure, and print a line for each kind of victim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--victims", default="process,leader,controller,both,hung,paused")
    parser.add_argument("--peer-timeout-ms", type=int, default=1000)
    parser.add_argument("--hang-timeout-ms", type=int, default=5000)
    arguments = parser.parse_args()
    settings = {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "ottla.peer.timeout.ms": str(arguments.peer_timeout_ms),
        "ottla.hang.timeout.ms": str(arguments.hang_timeout_ms),
        "auto.leader.rebalance.enable": "false",
    }
    with tempfile.TemporaryDirectory() as data:
        cluster = Cluster.up(Path(data) / "cluster", overrides=settings)
        with cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result()
            with SteadyProducer(cluster.bootstrap_servers) as producer:
                for victims in arguments.victims.split(","):
                    measured = [measure(cluster, producer, victims) for _ in range(arguments.rounds)]
                    pauses = sorted(pause for pause, _ in measured)
                    lost = sum(lost for _, lost in measured)
                    sys.stdout.write(
                        f"{victims:10}  median {statistics.median(pauses):6.2f} s  worst {pauses[-1]:6.2f} s  "
                        f"of {len(pauses)}" + (f"  sessions lost {lost}\n" if victims == "paused" else "\n")
                    )
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
