"""The controller's gauges, computed at scrape time; 0 on brokers that are not the controller."""

from collections.abc import Callable

from cluster.controller.controller import Controller
from cluster.controller.term import TermStatistics
from cluster.metrics.catalogue import BrokerMetrics

_PREFIX = "kafka_controller_kafkacontroller_"


def add_gauges(controller: Controller, metrics: BrokerMetrics) -> None:
    """Have a controller tell its metrics.

    Raises:
        ValueError: another controller has declared them already.
    """

    def declare(name: str, value: Callable[[TermStatistics], int]) -> None:
        metrics.probe(_PREFIX + name, lambda: value(controller.statistics()))

    metrics.probe(_PREFIX + "activecontrollercount", lambda: int(controller.is_active))
    metrics.probe(_PREFIX + "fencedbrokercount", lambda: 0)
    declare("offlinepartitionscount", lambda statistics: statistics.offline_partitions)
    declare("preferredreplicaimbalancecount", lambda statistics: statistics.preferred_imbalance)
    declare("globaltopiccount", lambda statistics: statistics.topics)
    declare("globalpartitioncount", lambda statistics: statistics.partitions)
