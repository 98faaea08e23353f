"""The Prometheus endpoint: ``GET /metrics`` over a small HTTP server of its own.

prometheus_client writes the text; it is imported when the first scrape comes, because a broker without the
endpoint should not pay for it. The families are written one by one with a checkpoint between them, so that a
scrape of ten thousand partitions does not hold up the requests of a broker.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

import trio

from cluster.metrics.registry import AnyFamily, Registry

logger = logging.getLogger(__name__)

HEAD_SIZE_MAX: Final = 8192
REQUEST_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 16
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def render(registry: Registry) -> bytes:
    """Write all metrics in Prometheus' text format."""
    from prometheus_client.exposition import generate_latest

    text = bytearray()
    for family in registry:
        # One family at a time: what generate_latest needs is anything with a collect method.
        collector: Any = _Collector(family)
        text += generate_latest(collector)
        await trio.lowlevel.checkpoint()
    return bytes(text)


class _Collector:
    """Shows one family the way prometheus_client expects it."""

    __slots__ = ("_family",)

    def __init__(self, family: AnyFamily) -> None:
        self._family = family

    def collect(self) -> Iterable[object]:
        from prometheus_client.metrics_core import Metric

        family = self._family
        metric = Metric(family.name, family.text, family.kind.value)
        for sample in family.samples():
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
        """Answer one request, and close: scrapes are rare."""
        async with stream, self._connections:
            with trio.move_on_after(REQUEST_TIMEOUT_S):
                try:
                    head = await _receive_head(stream)
                    if head is not None:
                        await stream.send_all(await self._respond(head))
                        await stream.send_eof()
                except trio.BrokenResourceError as error:
                    logger.debug("A scrape broke off: %s", error)

    async def _respond(self, head: bytes) -> bytes:
        line = head.split(b"\r\n", 1)[0].split(b" ")
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return _response(400, "Bad Request", b"")
        method, target = line[0], line[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "Method Not Allowed", b"")
        if target == b"/metrics":
            body = await render(self._registry)
            return _response(200, "OK", body, send_body=method == b"GET")
        if target == b"/health":
            return _response(200, "OK", b"ok\n") if self._is_ready() else _response(503, "Not Ready", b"")
        return _response(404, "Not Found", b"")


async def _receive_head(stream: trio.SocketStream) -> bytes | None:
    """Receive up to the blank line; None where the peer leaves before, or sends too much."""
    head = bytearray()
    while b"\r\n\r\n" not in head:
        received = await stream.receive_some(HEAD_SIZE_MAX)
        if not received or len(head) + len(received) > HEAD_SIZE_MAX:
            return None
        head += received
    return bytes(head)


def _response(status: int, reason: str, body: bytes, *, send_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if send_body else b"")
