"""Reading topics through Spark's connector, and the options that the jobs share for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pipeline.kafka_access import KafkaAccess
from pipeline.options import about

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Java's admin client, when it fetches offsets while a leader dies, may wait for that very broker until its call times
# out: for a minute by default. Spark asks again, so a short wait costs nothing.
# Nothing of an aborted or an open transaction is read; --kafka-config isolation.level=read_uncommitted reads all.
_ISOLATION: Final = {"kafka.isolation.level": "read_committed"}
_CALL_TIMEOUTS: Final = {"kafka.request.timeout.ms": "15000", "kafka.default.api.timeout.ms": "15000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The cluster of a job."""

    bootstrap_server: str = field(metadata=about("Brokers to connect to, HOST:PORT,..."))
    kafka_config: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about("A setting of the Java client, such as security.protocol=SASL_SSL; repeatable."),
    )
    client_config: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about("A setting of librdkafka, which asks for topics and commits groups; repeatable."),
    )

    @property
    def access(self) -> KafkaAccess:
        """How to reach the cluster."""
        return KafkaAccess(self.bootstrap_server, self.kafka_config, self.client_config)


def read_stream(
    spark: "SparkSession",
    access: KafkaAccess,
    *,
    topics: tuple[str, ...] = (),
    pattern: str | None = None,
    starting_offsets: str = "earliest",
    fail_on_data_loss: bool = True,
    offsets_per_batch: int | None = None,
) -> "DataFrame":
    """Return the records of topics as a stream: key, value, headers, topic, partition, offset, timestamp(Type)."""
    given = access.spark_options()
    options = {
        **_ISOLATION,
        **({} if _CALL_TIMEOUTS.keys() & given.keys() else _CALL_TIMEOUTS),
        **given,
        "startingOffsets": starting_offsets,
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "includeHeaders": "true",
        # The driver's own fetches of offsets: a broker that dies during one fails no query.
        "fetchOffset.numRetries": "10",
        "fetchOffset.retryIntervalMs": "500",
    }
    if pattern is None:
        options["subscribe"] = ",".join(topics)
    else:
        options["subscribePattern"] = pattern
    if offsets_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(offsets_per_batch)
    return spark.readStream.format("kafka").options(**options).load()


def read_batch(
    spark: "SparkSession",
    access: KafkaAccess,
    *,
    topics: tuple[str, ...] = (),
    pattern: str | None = None,
    starting_offsets: str = "earliest",
    ending_offsets: str = "latest",
) -> "DataFrame":
    """Return the records that are in topics now, with the columns of a stream."""
    options = {
        **_ISOLATION,
        **access.spark_options(),
        "startingOffsets": starting_offsets,
        "endingOffsets": ending_offsets,
        "includeHeaders": "true",
    }
    if pattern is None:
        options["subscribe"] = ",".join(topics)
    else:
        options["subscribePattern"] = pattern
    return spark.read.format("kafka").options(**options).load()
