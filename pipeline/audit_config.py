"""The settings of the audit job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.kafka_access import KafkaAccess
from pipeline.kafka_source import ClusterOptions
from pipeline.options import about

FAULTS: Final = ("gaps", "duplicates", "order", "difference")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig(ClusterOptions):
    """What to check, and what identifies a record."""

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
        """Whether there is another side to compare with."""
        return self.other_bootstrap_server is not None or self.other_topic is not None

    @property
    def other_access(self) -> KafkaAccess:
        """How to reach the other side."""
        if self.other_bootstrap_server is None:
            return self.access
        return KafkaAccess(self.other_bootstrap_server, self.other_kafka_config, self.client_config)
