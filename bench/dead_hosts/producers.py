"""Producers that never stop, and note when each record was acknowledged: librdkafka's and ours."""

import threading
import time
from bisect import bisect_left
from itertools import pairwise
from typing import Protocol, Self

import trio
from confluent_kafka import Producer

from ottla.client import ClientError, connect

TOPIC = "measured"
_PACE_S = 0.005
_VALUE = b"x" * 100


class Acknowledgements:
    """When records were acknowledged, on the monotonic clock. One thread adds to it, another reads it."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def add(self) -> None:
        """Note that a record was acknowledged now."""
        self._times.append(time.monotonic())

    def wait_more(self, count: int) -> None:
        """Wait until some more records are acknowledged."""
        wanted = len(self._times) + count
        while len(self._times) < wanted:
            pass_time(_PACE_S)

    def longest_pause_s(self, since: float) -> float:
        """Return the longest time without an acknowledgement since a moment, in seconds."""
        times = list(self._times)
        times = times[max(0, bisect_left(times, since) - 1) :]
        return max(later - earlier for earlier, later in pairwise(times))


class SteadyProducer(Protocol):
    """Sends a record every few milliseconds to one partition, with acks=all. A context manager."""

    name: str
    acknowledged: Acknowledgements

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class LibrdkafkaProducer:
    """One of librdkafka's.

    Args:
        bootstrap: Of the cluster.
        request_timeout_s: How long a request may hang on a network that was cut, in seconds.
        security: More settings, by librdkafka's names.
    """

    name = "librdkafka"

    def __init__(self, bootstrap: str, request_timeout_s: float, security: dict[str, str]) -> None:
        self.acknowledged = Acknowledgements()
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
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "request.timeout.ms": int(1000 * request_timeout_s),
                "socket.timeout.ms": int(1000 * request_timeout_s),
                "socket.connection.setup.timeout.ms": 1000,
                **security,
            },
            logger=None,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(30)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(TOPIC, _VALUE, partition=0, on_delivery=self._on_delivery)
            self._producer.poll(_PACE_S)

    def _on_delivery(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged.add()


class OttlaProducer:
    """`ottla.client`'s producer; its arguments are those of `LibrdkafkaProducer`, without security."""

    name = "ottla"

    def __init__(self, bootstrap: str, request_timeout_s: float) -> None:
        self.acknowledged = Acknowledgements()
        self._bootstrap = bootstrap
        self._request_timeout_s = request_timeout_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    async def _run(self) -> None:
        kafka = connect(
            self._bootstrap,
            request_timeout=self._request_timeout_s,
            connection_setup_timeout=self._request_timeout_s,
            reconnect_backoff=0.02,
            reconnect_backoff_max=0.1,
            retry_backoff=0.02,
            retry_backoff_max=0.1,
        )
        async with kafka, kafka.producer(linger=0) as out:
            while not self._ended.is_set():
                try:
                    await out.send(TOPIC, _VALUE)
                except ClientError:
                    continue
                self.acknowledged.add()
                await trio.sleep(_PACE_S)


def pass_time(seconds: float) -> None:
    """Do nothing for a while: a measurement, unlike a test, has to."""
    threading.Event().wait(seconds)
