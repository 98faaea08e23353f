"""audit: the content of a topic, and whether it is as it should be; or the difference between two clusters.

Missing offsets are counted, but are no fault: transaction markers and compaction leave gaps too. Duplicates and order
are found by a record's identity: --id, or --producer and --number. Two sides are compared by --id, else by partition
and offset.

Plain Spark: spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files ottla-pipeline.zip
    pipeline/jobs/audit.py --bootstrap-server ... --topic ...
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.audit_config import FAULTS, AuditConfig
from pipeline.failure import JobError
from pipeline.job import Job
from pipeline.report import Report, Stop
from pipeline.versions import KAFKA, Bundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        JobError: a fault of ``fail_on`` was found; the report was sent before.
    """
    from pipeline.auditing import Audit

    return Audit(spark, config, report).run()


JOB: Final = Job("audit", AuditConfig, _bundles, _check, _settings, run)

if __name__ == "__main__":
    from pipeline.driver import main

    main("audit")
