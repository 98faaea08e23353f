"""audit: what a topic holds, and whether that is what it should hold; or the difference between two clusters.

Offsets that are missing are counted, not judged: transaction markers and compaction leave gaps too. Duplicates and
order need to know what a record's identity is: --id, or --producer and --number. Two sides are compared by --id, else
by partition and offset.

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/audit.py --bootstrap-server ... --topic ...
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.job import Job
from pipeline.kafka_access import KafkaAccess
from pipeline.kafka_source import ClusterOptions
from pipeline.options import about
from pipeline.report import Report, Stop
from pipeline.versions import KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAULTS: Final = ("gaps", "duplicates", "order", "difference")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig(ClusterOptions):
    """What to check, and by which identity."""

    topic: str = field(metadata=about("The topic to check."))
    other_bootstrap_server: str | None = field(
        default=None,
        metadata=about("The other side's brokers; the same cluster by default.", metavar="HOST:PORT,..."),
    )
    other_kafka_config: Mapping[str, str] = field(
        default_factory=dict, metadata=about("A setting of the Java client for the other side; repeatable.")
    )
    other_topic: str | None = field(
        default=None, metadata=about("The other side's topic; of the same name by default.")
    )
    id: str | None = field(
        default=None,
        metadata=about(
            "An SQL expression that identifies a record, over key, value, topic, partition, offset, headers."
        ),
    )
    producer: str | None = field(
        default=None, metadata=about("An SQL expression for who sent a record; order is checked within it.")
    )
    number: str | None = field(
        default=None,
        metadata=about(
            "An SQL expression for a record's number, which rises for each producer and partition."
        ),
    )
    read_committed: bool = field(default=False, metadata=about("Leave out aborted transactions."))
    examples: int = field(default=5, metadata=about("How many cases of each fault are shown."))
    fail_on: tuple[str, ...] = field(
        default=(),
        metadata=about(f"Exit with 1 where there are {', '.join(FAULTS)}; repeatable, all for any."),
    )
    report_file: str | None = field(
        default=None, metadata=about("Write the report as JSON to this file.", metavar="FILE")
    )

    @property
    def compares(self) -> bool:
        """Whether there is another side."""
        return self.other_bootstrap_server is not None or self.other_topic is not None

    @property
    def other_access(self) -> KafkaAccess:
        """How to reach the other side."""
        if self.other_bootstrap_server is None:
            return self.access
        return KafkaAccess(self.other_bootstrap_server, self.other_kafka_config, self.client_config)


def _bundles(_config: AuditConfig) -> tuple[Bundle, ...]:
    return (KAFKA,)


def _settings(_config: AuditConfig) -> Mapping[str, str]:
    return {}


def _check(config: AuditConfig) -> None:
    unknown = sorted(set(config.fail_on) - {*FAULTS, "any"})
    if unknown:
        raise JobError(f"--fail-on {unknown[0]}: it is one of {', '.join(FAULTS)}, any")
    if config.producer is not None and config.number is None:
        raise JobError("--producer needs --number: the order is that of the numbers")
    config.access.require_topics([config.topic])
    if config.compares:
        config.other_access.require_topics([config.other_topic or config.topic])


def run(spark: "SparkSession", config: AuditConfig, report: Report, stop: Stop) -> dict[str, Any]:  # noqa: ARG001 - it ends by itself
    """Check a topic, or compare two.

    Returns:
        The report: a list of partitions for each side, totals, the difference, and examples of each fault.

    Raises:
        JobError: a fault of ``fail_on`` was found; the report was given before.
    """
    from pipeline.auditing import Audit

    return Audit(spark, config, report).run()


JOB: Final = Job("audit", AuditConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("audit")
