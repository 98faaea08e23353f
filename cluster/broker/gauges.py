"""Gauges computed at scrape time, from what a broker's components know; nothing is counted for them."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cluster.controller.gauges import add_gauges as add_controller_gauges
from cluster.metrics.process_probes import add_process_probes
from cluster.replication.partition.partition import Partition

if TYPE_CHECKING:
    from cluster.broker.components import Components
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.metrics.registry import Labels
    from storage.log import Log


def add_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    """Register the gauges of a broker: read from its components when metrics are scraped."""
    add_process_probes(metrics.registry)
    components.listeners.add_probes(metrics)
    _add_partition_gauges(metrics, components)
    _add_waiting_gauges(metrics, components)
    _add_log_gauges(metrics, components)
    _add_cleaner_gauges(metrics, components)
    _add_group_gauges(metrics, components)
    _add_transaction_gauges(metrics, components)
    controller, zookeeper, clock = (
        components.context.controller,
        components.context.zookeeper,
        components.context.clock,
    )
    add_controller_gauges(controller, metrics, clock)
    metrics.probe(
        "kafka_server_sessionexpirelistener_sessionstate",
        lambda: float(zookeeper.session_is_live(clock.monotonic())),
    )


def _add_partition_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    replicas = components.context.replicas

    def count(condition: Callable[[Partition], bool]) -> Callable[[], float]:
        return lambda: float(sum(1 for partition in replicas.hosted if condition(partition)))

    manager = "kafka_server_replicamanager_"
    metrics.probe(manager + "leadercount", count(lambda partition: partition.is_leader))
    metrics.probe(manager + "partitioncount", count(lambda _: True))
    metrics.probe(
        manager + "underreplicatedpartitions", count(lambda partition: partition.is_under_replicated)
    )
    metrics.probe(manager + "underminisrpartitioncount", count(lambda partition: partition.is_under_min_isr))
    metrics.probe(manager + "atminisrpartitioncount", count(lambda partition: partition.is_at_min_isr))
    metrics.probe(manager + "offlinereplicacount", lambda: float(len(replicas.hosted.offline)))

    def lags() -> "dict[Labels, float]":
        return {
            (f"fetcher-{state.partition.leader_id}", *map(str, partition)): float(state.lag)
            for fetcher in replicas.fetcher_pool
            for partition, state in fetcher.states.items()
            if state.lag is not None
        }

    metrics.probe("kafka_server_fetcherlagmetrics_consumerlag", lags)


def _add_waiting_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    replicas = components.context.replicas

    def waiting() -> "dict[str, list[object]]":
        found: dict[str, list[object]] = {"Produce": [], "Fetch": [], "DeleteRecords": []}
        for partition in replicas.hosted:
            for kind, operation in partition.waiters.operations():
                found[kind].append(operation)
        return found

    def operations() -> "dict[Labels, float]":
        return {(kind,): float(len(set(map(id, found)))) for kind, found in waiting().items()}

    def places() -> "dict[Labels, float]":
        return {(kind,): float(len(found)) for kind, found in waiting().items()}

    prefix = "kafka_server_delayedoperationpurgatory_"
    metrics.probe(prefix + "numdelayedoperations", operations)
    metrics.probe(prefix + "purgatorysize", places)


def _add_log_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    replicas = components.context.replicas

    def each(value: "Callable[[Log], float]") -> "Callable[[], dict[Labels, float]]":
        return lambda: {
            (log.topic_partition.topic, str(log.topic_partition.partition)): value(log)
            for log in _logs(replicas.hosted)
        }

    metrics.probe("kafka_log_log_logstartoffset", each(lambda log: float(log.log_start_offset)))
    metrics.probe("kafka_log_log_logendoffset", each(lambda log: float(log.log_end_offset)))
    metrics.probe("kafka_log_log_numlogsegments", each(lambda log: float(len(log.segments))))
    metrics.probe("kafka_log_log_size", each(lambda log: float(log.size_bytes)))


def _add_group_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    groups = components.context.groups

    def by_state() -> "dict[Labels, float]":
        return {(state,): float(count) for state, count in groups.count_by_state().items()}

    manager = "kafka_server_groupmetadatamanager_"
    metrics.probe(manager + "numgroups", by_state)
    metrics.probe(manager + "numoffsets", lambda: float(groups.offset_count()))


def _add_transaction_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    replicas, clock = components.context.replicas, components.context.clock
    config = components.context.config

    def lags() -> "dict[Labels, float]":
        return {
            (log.topic_partition.topic, str(log.topic_partition.partition)): float(
                log.high_watermark - log.last_stable_offset
            )
            for log in _logs(replicas.hosted)
            if log.producer_state.first_unstable_offset is not None
        }

    def late() -> float:
        now, longest = clock.wall_ms(), config.transaction_max_timeout_ms
        return float(
            sum(
                1
                for partition in replicas.hosted
                if partition.leader_log is not None
                and partition.leader_log.producer_state.has_late_transaction(now, longest)
            )
        )

    transactions = components.context.transactions
    prefix = "kafka_coordinator_transaction_"

    def waiting() -> "dict[Labels, float]":
        counts = transactions.markers.waiting_by_broker()
        return {(str(broker),): float(count) for broker, count in counts.items() if broker >= 0}

    metrics.probe(
        prefix + "transactions",
        lambda: {(state,): float(count) for state, count in transactions.count_by_state().items()},
    )
    metrics.probe(prefix + "oldestprepareseconds", transactions.oldest_prepare_s)
    metrics.probe(prefix + "markerswaiting", waiting)
    metrics.probe(prefix + "markersabandoned", lambda: float(transactions.markers.abandoned))
    metrics.probe(
        prefix + "transactionmarkerchannelmanager_unknowndestinationqueuesize",
        lambda: float(transactions.markers.waiting_by_broker()[-1]),
    )
    metrics.probe(
        "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
        lambda: 1000 * transactions.longest_load_s,
    )
    metrics.probe("kafka_cluster_partition_laststableoffsetlag", lags)
    manager = "kafka_server_replicamanager_"
    metrics.probe(manager + "partitionswithlatetransactionscount", late)
    metrics.probe(
        manager + "produceridcount",
        lambda: float(sum(len(log.producer_state.entries) for log in _logs(replicas.hosted))),
    )


def _add_cleaner_gauges(metrics: "BrokerMetrics", components: "Components") -> None:
    compaction, clock = components.context.replicas.compaction, components.context.clock
    cleaner = compaction.cleaner

    def recopied() -> float:
        last = cleaner.last_result
        # The log cleaner reads twice what it copies once.
        return 0.0 if last is None or not last.bytes_read else 200.0 * last.bytes_written / last.bytes_read

    def per_directory(value: "Callable[[Log], float]") -> "Callable[[], dict[Labels, float]]":
        def sums() -> "dict[Labels, float]":
            found: dict[Labels, float] = {(path,): 0.0 for path in compaction.directories}
            for log in compaction.uncleanable_logs():
                found[log.log_directory.path,] += value(log)
            return found

        return sums

    prefix = "kafka_log_logcleaner_"
    metrics.probe(prefix + "cleaner_recopy_percent", recopied)
    metrics.probe(prefix + "max_clean_time_secs", lambda: compaction.longest_s)
    metrics.probe(prefix + "max_compaction_delay_secs", lambda: cleaner.max_delay_ms / 1000)
    metrics.probe(
        prefix + "cleanings",
        lambda: {("cleaned",): float(compaction.cleaned), ("failed",): float(compaction.failed)},
    )
    metrics.probe(
        prefix + "uncleanable",
        lambda: {(topic, str(partition)): 1.0 for topic, partition in cleaner.uncleanable},
    )
    manager = "kafka_log_logcleanermanager_"
    metrics.probe(manager + "max_dirty_percent", lambda: 100 * cleaner.max_dirty_ratio)
    metrics.probe(
        manager + "time_since_last_run_ms", lambda: 1000 * (clock.monotonic() - compaction.last_run)
    )
    metrics.probe(manager + "uncleanable_partitions_count", per_directory(lambda _: 1.0))
    metrics.probe(manager + "uncleanable_bytes", per_directory(lambda log: float(log.size_bytes)))


def _logs(partitions: Iterable[Partition]) -> "Iterable[Log]":
    return (partition.log for partition in partitions if partition.log is not None)
