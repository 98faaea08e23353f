"""The HTTP endpoint of a broker: ``GET /metrics`` for Prometheus, ``GET /health`` for probes.

h11 speaks HTTP; each connection answers one request and is closed, because scrapes are rare.

prometheus_client writes the text; it is imported when the first scrape comes, because a broker without the
endpoint should not pay for it. Samples are written in slices with a checkpoint between them, so that a
scrape of ten thousand partitions does not hold up the requests of a broker.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import h11
import trio

from cluster.metrics.registry import AnyFamily, Registry, Sample

logger = logging.getLogger(__name__)

SAMPLES_PER_TURN: Final = 500
"""How many samples are written before the loop turns: a per-partition family can have a hundred thousand."""
HEAD_SIZE_MAX: Final = 8192
REQUEST_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 16
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def render(registry: Registry) -> bytes:
    """Return all metrics in Prometheus' text format; a family that cannot be read now is left out.

    Raises:
        OSError, ImportError: prometheus_client cannot be loaded, for example because no descriptor is free.
    """
    from prometheus_client.exposition import generate_latest

    text = bytearray()
    for family in registry:
        samples, is_first = family.samples(), True
        while True:
            try:
                some = list(islice(samples, SAMPLES_PER_TURN))
            except OSError as error:
                logger.warning("%s is not shown: %s", family.name, error)
                break
            if some or is_first:
                # What generate_latest needs is anything with a collect method.
                collector: Any = _Collector(family, some)
                part = generate_latest(collector)
                # Its first two lines are about the whole family.
                text += part if is_first else part.split(b"\n", 2)[2]
                is_first = False
            await trio.lowlevel.checkpoint()
            if len(some) < SAMPLES_PER_TURN:
                break
    return bytes(text)


class _Collector:
    """Shows some samples of one family the way prometheus_client expects it."""

    __slots__ = ("_family", "_samples")

    def __init__(self, family: AnyFamily, samples: Sequence[Sample]) -> None:
        self._family = family
        self._samples = samples

    def collect(self) -> Iterable[object]:
        from prometheus_client.metrics_core import Metric

        family = self._family
        metric = Metric(family.name, family.text, family.kind.value)
        for sample in self._samples:
            metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
        return (metric,)


class MetricsEndpoint:
    """Serves a registry over HTTP.

    Args:
        registry: What is shown.
        host: The address to bind; empty for all.
        port: The TCP port; 0 takes any.
        is_ready: Answers ``GET /health``: 200 where true, 503 where not.

    Attributes:
        port: The port bound, once `serve` has started.
    """

    def __init__(
        self, registry: Registry, host: str, port: int, *, is_ready: Callable[[], bool] = lambda: True
    ) -> None:
        self._registry = registry
        self._host = host
        self._is_ready = is_ready
        self._connections = trio.CapacityLimiter(CONNECTIONS_MAX)
        self.port = port

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled.

        Raises:
            OSError: the port cannot be bound.
        """
        listeners = await trio.open_tcp_listeners(self.port, host=self._host or None)
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._answer, listeners)

    async def _answer(self, stream: trio.SocketStream) -> None:
        """Answer one request and close; a peer that is slower than `REQUEST_TIMEOUT_S` is dropped."""
        async with stream, self._connections:
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)
            with trio.move_on_after(REQUEST_TIMEOUT_S):
                try:
                    try:
                        request = await _receive_request(stream, connection)
                        if request is None:
                            return
                        status, body = await self._respond(request)
                    except h11.RemoteProtocolError as error:
                        request, status, body = None, error.error_status_hint, b""
                    await stream.send_all(_response(connection, request, status, body))
                    await stream.send_eof()
                except (trio.BrokenResourceError, OSError) as error:
                    logger.debug("a scrape broke off: %s", error)

    async def _respond(self, request: h11.Request) -> tuple[int, bytes]:
        """Return the status and the body."""
        if request.method not in (b"GET", b"HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, b""
        path = request.target.split(b"?", 1)[0]
        if path == b"/metrics":
            try:
                return HTTPStatus.OK, await render(self._registry)
            except (OSError, ImportError) as error:
                logger.warning("a scrape is refused: %s", error)
                return HTTPStatus.SERVICE_UNAVAILABLE, b""
        if path == b"/health":
            return (HTTPStatus.OK, b"ok\n") if self._is_ready() else (HTTPStatus.SERVICE_UNAVAILABLE, b"")
        return HTTPStatus.NOT_FOUND, b""


async def _receive_request(stream: trio.SocketStream, connection: h11.Connection) -> h11.Request | None:
    """Receive the head of a request; None if the peer leaves instead.

    Raises:
        h11.RemoteProtocolError: the peer does not speak HTTP, or its head is longer than `HEAD_SIZE_MAX`.
    """
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive_some(HEAD_SIZE_MAX))
    return event if isinstance(event, h11.Request) else None


def _response(connection: h11.Connection, request: h11.Request | None, status: int, body: bytes) -> bytes:
    headers = [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body))), ("Connection", "close")]
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    sent = b"" if request is not None and request.method == b"HEAD" else body
    events = (
        h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
        h11.Data(data=sent),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(event) or b"" for event in events)
