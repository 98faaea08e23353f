"""The controller's gauges, computed at scrape time; 0 on brokers that are not the controller."""

from functools import partial
from typing import Final

from cluster.controller.controller import Controller
from cluster.controller.term import TermStatistics
from cluster.metrics.catalogue import BrokerMetrics
from timing.clock import Clock

COUNTS_KEPT_S: Final = 1.0
_PREFIX: Final = "kafka_controller_kafkacontroller_"
_COUNTS: Final = {
    "globaltopiccount": "topics",
    "globalpartitioncount": "partitions",
    "offlinepartitionscount": "offline_partitions",
    "preferredreplicaimbalancecount": "preferred_imbalance",
}
"""The gauges of the controller, and the count that each shows."""


def add_gauges(controller: Controller, metrics: BrokerMetrics, clock: Clock) -> None:
    """Register the gauges of a controller.

    Raises:
        ValueError: another controller has declared them already.
    """
    counts = _ControllerCounts(controller, clock)
    metrics.probe(_PREFIX + "activecontrollercount", lambda: float(controller.is_active))
    metrics.probe(_PREFIX + "fencedbrokercount", lambda: 0.0)
    for name, field in _COUNTS.items():
        metrics.probe(_PREFIX + name, partial(counts.read, field))


class _ControllerCounts:
    """The counts of the controller, which walks over every partition for them: once for all gauges of a scrape."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._counted = TermStatistics()
        self._counted_at = -COUNTS_KEPT_S

    def read(self, field: str) -> float:
        now = self._clock.monotonic()
        if now - self._counted_at >= COUNTS_KEPT_S:
            self._counted, self._counted_at = self._controller.statistics(), now
        return float(getattr(self._counted, field))
