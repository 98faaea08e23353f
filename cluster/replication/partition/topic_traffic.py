"""The counters of one topic's data path, looked up once per partition instead of once per request."""

from cluster.metrics.catalogue import BrokerMetrics


class TopicTraffic:
    """The counters of one topic; counting is ``traffic.bytes_in.value += n``.

    Attributes:
        messages_in: Records appended by producers.
        bytes_in: Bytes appended by producers.
        bytes_out: Bytes sent to consumers.
        produce_requests: Appends requested.
        failed_produces: Appends that failed.
        fetch_requests: Fetches requested.
        failed_fetches: Fetches that failed.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetch_requests",
        "messages_in",
        "produce_requests",
    )

    def __init__(self, metrics: BrokerMetrics, topic: str) -> None:
        self.messages_in = metrics.messages_in.of(topic)
        self.bytes_in = metrics.bytes_in.of(topic)
        self.bytes_out = metrics.bytes_out.of(topic)
        self.produce_requests = metrics.produce_requests.of(topic)
        self.failed_produces = metrics.failed_produce_requests.of(topic)
        self.fetch_requests = metrics.fetch_requests.of(topic)
        self.failed_fetches = metrics.failed_fetch_requests.of(topic)
