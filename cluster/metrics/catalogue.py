"""The metrics that a broker declares: each is declared once, here, with its meaning.

The parts of a broker take a `BrokerMetrics` and count into it; what they know anyway they register as a probe
under one of the names in `PROBES`.
"""

from typing import Final

from cluster.metrics.registry import Kind, Labels, Probe, Registry

PROBES: Final[dict[str, tuple[Kind, Labels, str]]] = {
    "kafka_server_replicamanager_leadercount": (Kind.GAUGE, (), "Partitions that this broker leads."),
    "kafka_server_replicamanager_partitioncount": (Kind.GAUGE, (), "Partitions that this broker hosts."),
    "kafka_server_replicamanager_offlinereplicacount": (Kind.GAUGE, (), "Replicas on failed directories."),
    "kafka_server_replicamanager_underreplicatedpartitions": (
        Kind.GAUGE,
        (),
        "Led partitions with fewer replicas in sync than assigned.",
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": (
        Kind.GAUGE,
        (),
        "Led partitions with fewer replicas in sync than min.insync.replicas.",
    ),
    "kafka_server_replicamanager_atminisrpartitioncount": (
        Kind.GAUGE,
        (),
        "Led partitions with exactly min.insync.replicas in sync.",
    ),
    "kafka_controller_kafkacontroller_activecontrollercount": (
        Kind.GAUGE,
        (),
        "1 where this broker is the controller.",
    ),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (
        Kind.GAUGE,
        (),
        "Partitions without a leader, on the controller.",
    ),
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": (
        Kind.GAUGE,
        (),
        "Partitions not led by their preferred replica, on the controller.",
    ),
    "kafka_controller_kafkacontroller_globaltopiccount": (Kind.GAUGE, (), "Topics, on the controller."),
    "kafka_controller_kafkacontroller_globalpartitioncount": (
        Kind.GAUGE,
        (),
        "Partitions, on the controller.",
    ),
    "kafka_controller_kafkacontroller_fencedbrokercount": (Kind.GAUGE, (), "Always 0 with ZooKeeper."),
    "kafka_server_delayedoperationpurgatory_numdelayedoperations": (
        Kind.GAUGE,
        ("delayedoperation",),
        "Operations that wait.",
    ),
    "kafka_server_delayedoperationpurgatory_purgatorysize": (
        Kind.GAUGE,
        ("delayedoperation",),
        "Places under keys that waiting operations take.",
    ),
    "kafka_server_fetcherlagmetrics_consumerlag": (
        Kind.GAUGE,
        ("clientid", "topic", "partition"),
        "Records that a replica here lacks of its leader's.",
    ),
    "kafka_log_log_logstartoffset": (Kind.GAUGE, ("topic", "partition"), "First offset kept."),
    "kafka_log_log_logendoffset": (Kind.GAUGE, ("topic", "partition"), "Next offset to be written."),
    "kafka_log_log_size": (Kind.GAUGE, ("topic", "partition"), "Bytes of a log."),
    "kafka_log_log_numlogsegments": (Kind.GAUGE, ("topic", "partition"), "Segments of a log."),
    "kafka_log_logcleaner_cleaner_recopy_percent": (
        Kind.GAUGE,
        (),
        "Of the bytes that the last compaction read, those that it kept.",
    ),
    "kafka_log_logcleaner_max_clean_time_secs": (Kind.GAUGE, (), "The longest compaction of one log."),
    "kafka_log_logcleaner_max_compaction_delay_secs": (
        Kind.GAUGE,
        (),
        "How much longer a record has waited for compaction than max.compaction.lag.ms.",
    ),
    "kafka_log_logcleaner_cleanings": (Kind.COUNTER, ("outcome",), "Compactions that ended."),
    "kafka_log_logcleaner_uncleanable": (
        Kind.GAUGE,
        ("topic", "partition"),
        "1 for a log that cannot be compacted; the log says why.",
    ),
    "kafka_log_logcleanermanager_max_dirty_percent": (
        Kind.GAUGE,
        (),
        "The greatest share of a compacted log that is not compacted yet.",
    ),
    "kafka_log_logcleanermanager_time_since_last_run_ms": (Kind.GAUGE, (), "Since a compaction ended."),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": (
        Kind.GAUGE,
        ("logdirectory",),
        "Logs that cannot be compacted.",
    ),
    "kafka_log_logcleanermanager_uncleanable_bytes": (
        Kind.GAUGE,
        ("logdirectory",),
        "Bytes of logs that cannot be compacted.",
    ),
    "kafka_network_socketserver_connectioncount": (Kind.GAUGE, ("listener",), "Connections there are."),
    "kafka_network_socketserver_acceptrestseconds": (
        Kind.COUNTER,
        ("listener",),
        "Seconds for which nothing was accepted, because connections came too fast.",
    ),
    "kafka_network_socketserver_connectionsaccepted": (Kind.COUNTER, (), "Connections accepted."),
    "kafka_network_socketserver_connectionsrejected": (
        Kind.COUNTER,
        (),
        "Connections refused, over a limit.",
    ),
    "kafka_network_socketserver_connectionscutoff": (
        Kind.COUNTER,
        (),
        "Connections closed for being idle or slow.",
    ),
    "kafka_network_socketserver_successfulauthentications": (
        Kind.COUNTER,
        (),
        "Connections that authenticated.",
    ),
    "kafka_network_socketserver_successfulauthenticationsnoreauth": (
        Kind.COUNTER,
        (),
        "Of these, by clients that cannot authenticate again.",
    ),
    "kafka_network_socketserver_failedauthentications": (
        Kind.COUNTER,
        (),
        "Connections that failed to authenticate.",
    ),
    "kafka_network_socketserver_successfulreauthentications": (
        Kind.COUNTER,
        (),
        "Sessions prolonged by authenticating again.",
    ),
    "kafka_network_socketserver_failedreauthentications": (
        Kind.COUNTER,
        (),
        "Sessions that could not be prolonged.",
    ),
    "kafka_network_socketserver_expiredconnectionskilled": (
        Kind.COUNTER,
        (),
        "Connections closed at the end of their session.",
    ),
    "kafka_server_clientquotas_throttled": (
        Kind.COUNTER,
        ("quotatype",),
        "Clients held back, by type of quota.",
    ),
    "kafka_server_clientquotas_throttledseconds": (
        Kind.COUNTER,
        ("quotatype",),
        "The time that clients were held back for, by type of quota.",
    ),
    "kafka_network_socketserver_receivedbytes": (Kind.COUNTER, (), "Bytes received."),
    "kafka_network_socketserver_sentbytes": (Kind.COUNTER, (), "Bytes sent."),
    "kafka_network_requestchannel_inflightbytes": (
        Kind.GAUGE,
        (),
        "Bytes of requests and answers in flight.",
    ),
    "kafka_server_groupmetadatamanager_numgroups": (
        Kind.GAUGE,
        ("state",),
        "Consumer groups here, by state.",
    ),
    "kafka_server_groupmetadatamanager_numoffsets": (
        Kind.GAUGE,
        (),
        "Offsets that the groups here have committed.",
    ),
    "kafka_coordinator_transaction_transactions": (
        Kind.GAUGE,
        ("state",),
        "Transactional ids that something has happened to here, by state.",
    ),
    "kafka_coordinator_transaction_oldestprepareseconds": (
        Kind.GAUGE,
        (),
        "For how long the transaction decided first has waited for its markers; 0 where none waits.",
    ),
    "kafka_coordinator_transaction_markerswaiting": (
        Kind.GAUGE,
        ("broker",),
        "Markers that wait for a broker.",
    ),
    "kafka_coordinator_transaction_markersabandoned": (
        Kind.COUNTER,
        (),
        "Markers that their partitions refused as outdated.",
    ),
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": (
        Kind.GAUGE,
        (),
        "Markers that wait for a leader that is not known or not live, or are to be sent again.",
    ),
    "kafka_server_transaction_coordinator_metrics_partition_load_time_max": (
        Kind.GAUGE,
        (),
        "Milliseconds that the longest load of a partition of __transaction_state took.",
    ),
    "kafka_cluster_partition_laststableoffsetlag": (
        Kind.GAUGE,
        ("topic", "partition"),
        "Records between the last stable offset and the high watermark, where a transaction is open.",
    ),
    "kafka_server_replicamanager_partitionswithlatetransactionscount": (
        Kind.GAUGE,
        (),
        "Led partitions with a transaction open for longer than any may last.",
    ),
    "kafka_server_replicamanager_produceridcount": (Kind.GAUGE, (), "Producers that partitions remember."),
    "ottla_loop_longestturnms": (
        Kind.GAUGE,
        ("task",),
        "The longest time of late in which the event loop did one round of work, and the task that took it.",
    ),
    "ottla_loop_slowturns": (
        Kind.COUNTER,
        (),
        "Rounds of the event loop that took longer than ottla.loop.turn.warn.ms.",
    ),
    "kafka_server_sessionexpirelistener_sessionstate": (
        Kind.GAUGE,
        (),
        "1 where the ZooKeeper session is known to live.",
    ),
}
"""Metrics computed at scrape time: kind, labels, text."""


class BrokerMetrics:
    """What the parts of one broker count into.

    Attributes:
        registry: Everything, for exposition.
        messages_in: Records appended, by topic.
        bytes_in: Bytes appended, by topic.
        bytes_out: Bytes sent to consumers, by topic.
        bytes_rejected: Bytes refused for their size, by topic.
        replication_bytes_in: Bytes fetched from leaders.
        replication_bytes_out: Bytes sent to followers.
        produce_requests: Partitions appended to, by topic.
        fetch_requests: Partitions fetched, by topic.
        failed_produce_requests: Appends that failed, by topic.
        failed_fetch_requests: Fetches that failed, by topic.
        isr_shrinks: ISR changes that removed replicas.
        isr_expands: ISR changes that added a replica.
        failed_isr_updates: ISR changes that ZooKeeper refused.
        verification_time_ms: From asking a transaction's coordinator to its answer.
        verification_failures: Partitions that a coordinator did not confirm.
        leader_elections: Elections that the controller held.
        unclean_leader_elections: Elections of a replica that was not in sync.
        requests: Requests begun, by API.
        request_errors: Error codes answered, by API and error.
        request_time_ms: From the start of a request to its answer, by API.
        controller_event_time_ms: The controller's work on one event, by kind of event.
        loop_turn_ms: Rounds of the event loop of 1 ms and more.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry = Registry() if registry is None else registry
        self.loop_turn_ms = registry.histogram(
            "ottla_loop_turnms",
            "How long rounds of the event loop took, of those that took a millisecond or more.",
        )
        topics = "kafka_server_brokertopicmetrics_"
        counter = registry.counter
        self.messages_in = counter(topics + "messagesin", "Records appended by producers.", ("topic",))
        self.bytes_in = counter(topics + "bytesin", "Bytes appended by producers.", ("topic",))
        self.bytes_out = counter(topics + "bytesout", "Bytes sent to consumers.", ("topic",))
        self.bytes_rejected = counter(topics + "bytesrejected", "Bytes refused for size.", ("topic",))
        self.replication_bytes_in = counter(topics + "replicationbytesin", "Bytes fetched from leaders.")
        self.replication_bytes_out = counter(topics + "replicationbytesout", "Bytes sent to followers.")
        self.produce_requests = counter(topics + "totalproducerequests", "Appends asked for.", ("topic",))
        self.fetch_requests = counter(topics + "totalfetchrequests", "Fetches asked for.", ("topic",))
        self.failed_produce_requests = counter(
            topics + "failedproducerequests", "Appends that failed.", ("topic",)
        )
        self.failed_fetch_requests = counter(
            topics + "failedfetchrequests", "Fetches that failed.", ("topic",)
        )
        replicas = "kafka_server_replicamanager_"
        self.isr_shrinks = counter(replicas + "isrshrinks", "In-sync replica sets made smaller.")
        self.isr_expands = counter(replicas + "isrexpands", "In-sync replica sets made larger.")
        self.failed_isr_updates = counter(replicas + "failedisrupdates", "Changes that ZooKeeper refused.")
        verification = "kafka_server_addpartitionstotxnmanager_"
        self.verification_time_ms = registry.histogram(
            verification + "verificationtimems", "From asking a transaction's coordinator to its answer."
        )
        self.verification_failures = counter(
            verification + "verificationfailures", "Partitions that a coordinator did not confirm."
        )
        controller = "kafka_controller_controllerstats_"
        self.leader_elections = counter(controller + "leaderelection", "Elections held.")
        self.unclean_leader_elections = counter(
            controller + "uncleanleaderelections", "Elections of a replica that was not in sync."
        )
        self.controller_event_time_ms = registry.histogram(
            controller + "eventtimems", "The controller's work on one event.", ("event",)
        )
        requests = "kafka_network_requestmetrics_"
        self.requests = counter(requests + "requests", "Requests begun.", ("request",))
        self.request_errors = counter(requests + "errors", "Errors answered.", ("request", "error"))
        self.request_time_ms = registry.histogram(
            requests + "totaltimems", "From a request's begin to its answer.", ("request",)
        )

    def probe(self, name: str, read: Probe) -> None:
        """Have `read` compute the metric of a name in `PROBES` at scrape time.

        Raises:
            KeyError: the name is not declared.
            ValueError: it has a reader already.
        """
        kind, label_names, text = PROBES[name]
        self.registry.probe(name, text, read, label_names, kind=kind)

    def forget_topic(self, topic: str) -> None:
        """Drop what was counted for a topic that is gone from this broker."""
        for family in (
            self.messages_in,
            self.bytes_in,
            self.bytes_out,
            self.bytes_rejected,
            self.produce_requests,
            self.fetch_requests,
            self.failed_produce_requests,
            self.failed_fetch_requests,
        ):
            family.remove(topic)
